// A block takes a chunk of a tensor, a thread a lane. Then a block takes the sums of a tensor's
// chunks.
#include "ops/kernel/element.cuh"
#include "ops/kernel/kernel_launch.cuh"
#include "ops/kernel/tensor_chunks.cuh"
#include "ops/sums_of_squares/sums_of_squares_cuda.h"
#include "ops/sums_of_squares/sums_of_squares_math.h"

namespace rondo::cuda {
namespace {

using squares::kChunk, squares::kLanes;

using Table = TensorTable<SquaredTensor>;

template <class T>
__device__ double addend(T x) {
  if constexpr (std::is_same_v<T, double>)
    return x;
  else
    return squares::square(widened(x));
}

// Returns to thread 0 the sum of x[first], ..., x[end - 1] in the order of the lanes.
template <class T>
__device__ double add_lanes(const T* x, std::int64_t first, std::int64_t end) {
  __shared__ double lanes[kLanes];
  double sum = 0;
#pragma unroll 8
  for (std::int64_t i = first + threadIdx.x; i < end; i += kLanes) sum += addend(x[i]);
  lanes[threadIdx.x] = sum;
  __syncthreads();
  for (unsigned half = kLanes / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) lanes[threadIdx.x] += lanes[threadIdx.x + half];
    __syncthreads();
  }
  return lanes[0];
}

template <class T>
__global__ void __launch_bounds__(kLanes) chunk_kernel(Table table, double* sums) {
  const auto chunk = static_cast<std::int32_t>(blockIdx.x);
  const int tensor = table.tensor_of(chunk);
  const SquaredTensor& of = table.tensors[tensor];
  const std::int64_t first = (chunk - table.first_chunk[tensor]) * kChunk;
  const std::int64_t end = of.count - first < kChunk ? of.count : first + kChunk;
  const double sum = add_lanes(static_cast<const T*>(of.x), first, end);
  if (threadIdx.x == 0) sums[chunk] = sum;
}

__global__ void __launch_bounds__(kLanes) tensor_kernel(Table table, const double* chunk_sums, double* sums) {
  const double sum = add_lanes(chunk_sums, table.first_chunk[blockIdx.x], table.first_chunk[blockIdx.x + 1]);
  if (threadIdx.x == 0) sums[table.tensors[blockIdx.x].index] = sum;
}

}  // namespace

void sums_of_squares(Element element, std::span<const SquaredTensor> tensors, double* chunk_sums,
                     double* sums, cudaStream_t stream) {
  for_each_table(tensors, kChunk, [&](const Table& table, std::int32_t chunks) {
    if (chunks > 0)
      with_f32_or_bf16(element, [&](auto type) {
        launch(&chunk_kernel<decltype(type)>, static_cast<unsigned>(chunks), kLanes, stream, table,
               chunk_sums);
      });
    launch(&tensor_kernel, static_cast<unsigned>(table.count), kLanes, stream, table, chunk_sums, sums);
    chunk_sums += chunks;
  });
}

}  // namespace rondo::cuda
