#include "ops/add_widened/add_widened_cuda.h"
#include "ops/kernel/kernel_launch.cuh"
#include "ops/kernel/vectors.cuh"

namespace rondo::cuda {
namespace {

constexpr int kThreads = 256;

// A thread adds eight consecutive elements.
template <class T, class X, bool kAligned>
__global__ void __launch_bounds__(kThreads) add_kernel(T* sum, const X* x, std::int64_t count) {
  const std::int64_t first = (static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x) * kVector;
  if (first >= count) return;
  float a[kVector], b[kVector];
  load_some<kAligned>(sum, first, count, a);
  load_some<kAligned>(x, first, count, b);
#pragma unroll
  for (int i = 0; i < kVector; ++i) a[i] += b[i];
  store_some<kAligned>(sum, first, count, a);
}

}  // namespace

void add_widened(void* sum, Element of_sum, const void* x, Element of_x, std::int64_t count,
                 cudaStream_t stream) {
  const bool all_aligned = aligned(sum) && aligned(x) && count % kVector == 0;
  const unsigned blocks = blocks_for(count, kThreads * kVector);
  with_f32_or_bf16(of_sum, [&](auto sum_type) {
    with_f32_or_bf16(of_x, [&](auto x_type) {
      with_alignment(all_aligned, [&](auto whole) {
        launch(&add_kernel<decltype(sum_type), decltype(x_type), whole()>, blocks, kThreads, stream, sum, x,
               count);
      });
    });
  });
}

}  // namespace rondo::cuda
