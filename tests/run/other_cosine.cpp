// A library for LD_PRELOAD: in processes whose RANK is OTHER_COSINE_RANK, cos() is another function. A rank
// whose learning rate decays by it takes other steps than its replicas: the drift that a machine which
// computes wrongly would cause.
#include <cstdlib>
#include <string_view>

extern "C" double cos(double x) {
  const char* rank = std::getenv("RANK");
  const char* other = std::getenv("OTHER_COSINE_RANK");
  const bool is_other = rank != nullptr && other != nullptr && std::string_view(rank) == other;
  const double cosine = __builtin_sin(x + 1.5707963267948966);
  return is_other ? cosine + 0.25 : cosine;
}
