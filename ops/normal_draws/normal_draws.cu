// Compiled without contraction, for the bits of the CPU.
#include "ops/kernel/element.cuh"
#include "ops/kernel/kernel_launch.cuh"
#include "ops/normal_draws/normal_draws_cuda.h"

namespace rondo::cuda {
namespace {

constexpr int kThreads = 256;

template <class T>
__global__ void __launch_bounds__(kThreads)
    draw_kernel(NormalDraws draws, std::int64_t first, std::int64_t count, T* x) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i < count) x[i] = rounded<T>(static_cast<float>(draws.at(first + i)));
}

}  // namespace

void draw(Element element, const NormalDraws& draws, std::int64_t first, std::int64_t count, void* x,
          cudaStream_t stream) {
  with_dtype(element, [&](auto type) {
    using T = decltype(type);
    launch(draw_kernel<T>, blocks_for(count, kThreads), kThreads, stream, draws, first, count,
           static_cast<T*>(x));
  });
}

}  // namespace rondo::cuda
