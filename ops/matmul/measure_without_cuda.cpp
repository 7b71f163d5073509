// Replaces matmul_cuda.cpp in builds without CUDA.
#include "ops/matmul/matmul.h"
#include "support/error.h"

namespace rondo {

MatmulTimes measure_matmul(const MatmulShape&, c10::Device) {
  throw Error(ExitCode::environment,
              "products are measured on a GPU, but this program is built without CUDA; build it with the "
              "preset cuda");
}

}  // namespace rondo
