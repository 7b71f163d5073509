// A library for LD_PRELOAD: in processes whose RANK is OTHER_COSINE_RANK, cos() is another
// function. A rank whose learning rate decays by it drifts from its replicas, as on a machine
// that computes wrong numbers. In processes whose RANK is SLOW_COSINE_RANK, cos() takes a fifth
// of a second.
#include <unistd.h>

#include <cstdlib>
#include <string_view>

extern "C" double cos(double x) {
  const char* rank = std::getenv("RANK");
  const auto is_rank = [&](const char* variable) {
    const char* value = std::getenv(variable);
    return rank != nullptr && value != nullptr && std::string_view(rank) == value;
  };
  const bool is_other = is_rank("OTHER_COSINE_RANK");
  if (is_rank("SLOW_COSINE_RANK")) usleep(200'000);
  const double cosine = __builtin_sin(x + 1.5707963267948966);
  return is_other ? cosine + 0.25 : cosine;
}
