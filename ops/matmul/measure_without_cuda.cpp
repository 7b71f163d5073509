// In the place of matmul_cuda.cpp where the build has no CUDA.
#include "ops/matmul/matmul.h"
#include "support/error.h"

namespace rondo {

MatmulTimes measure_matmul(const MatmulShape&, c10::Device) {
  throw Error(ExitCode::environment,
              "products are measured on a GPU, and this program is built without CUDA; use the preset cuda");
}

}  // namespace rondo
