#include "ops/kernel/instructions.h"

#include <ATen/Version.h>

#include <string>

namespace rondo {

#ifdef __x86_64__
VectorInstructions best_vector_instructions() {
  static const std::string capability = at::get_cpu_capability();
  if (capability == "AVX512") return VectorInstructions::avx512;
  return capability == "AVX2" ? VectorInstructions::avx2 : VectorInstructions::any;
}
#endif

}  // namespace rondo
