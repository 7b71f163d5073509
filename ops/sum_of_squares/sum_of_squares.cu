// A block takes a chunk, a thread a lane; then one block takes the sums of all chunks.
#include "ops/kernel/element.cuh"
#include "ops/kernel/kernel_launch.cuh"
#include "ops/sum_of_squares/sum_of_squares_cuda.h"
#include "ops/sum_of_squares/sum_of_squares_math.h"

namespace rondo::cuda {
namespace {

using squares::kChunk, squares::kLanes;

template <class T>
__device__ double addend(T x) {
  if constexpr (std::is_same_v<T, double>)
    return x;
  else
    return squares::square(widened(x));
}

template <class T>
__global__ void __launch_bounds__(kLanes)
    chunk_kernel(const T* x, std::int64_t count, std::int64_t of_block, double* sums) {
  __shared__ double lanes[kLanes];
  const std::int64_t first = blockIdx.x * of_block;
  const std::int64_t end = count - first < of_block ? count : first + of_block;
  double sum = 0;
#pragma unroll 8
  for (std::int64_t i = first + threadIdx.x; i < end; i += kLanes) sum += addend(x[i]);
  lanes[threadIdx.x] = sum;
  __syncthreads();
  for (unsigned half = kLanes / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) lanes[threadIdx.x] += lanes[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) sums[blockIdx.x] = lanes[0];
}

}  // namespace

void sum_of_squares(Element element, const void* x, std::int64_t count, double* chunk_sums, double* sum,
                    cudaStream_t stream) {
  with_f32_or_bf16(element, [&](auto type) {
    launch(&chunk_kernel<decltype(type)>, blocks_for(count, kChunk), kLanes, stream, x, count, kChunk,
           chunk_sums);
  });
  const std::int64_t chunks = squares::chunks_of(count);
  launch(&chunk_kernel<double>, 1, kLanes, stream, chunk_sums, chunks, chunks, sum);
}

}  // namespace rondo::cuda
