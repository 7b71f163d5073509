// A block takes a chunk of a tensor, a thread a lane; then a block takes the sums of a tensor's chunks. Many
// tensors share a launch: a table of them is a parameter of the kernel, and a block finds its tensor there.
#include <algorithm>

#include "ops/kernel/element.cuh"
#include "ops/kernel/kernel_launch.cuh"
#include "ops/sums_of_squares/sums_of_squares_cuda.h"
#include "ops/sums_of_squares/sums_of_squares_math.h"

namespace rondo::cuda {
namespace {

using squares::kChunk, squares::kLanes;

constexpr int kTensors = 64;  // of one launch: the table stays below 4 KiB, what every GPU takes

struct Table {
  SquaredTensor tensors[kTensors];
  std::int32_t first_chunk[kTensors + 1];  // of each tensor, counted from the launch's first
  std::int32_t count;
};
static_assert(sizeof(Table) < 2048);

template <class T>
__device__ double addend(T x) {
  if constexpr (std::is_same_v<T, double>)
    return x;
  else
    return squares::square(widened(x));
}

// The sum of x[first], ..., x[end - 1] in the order of the lanes, in thread 0.
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
  int tensor = 0, above = table.count;  // the last one that begins at this chunk or before
  while (above - tensor > 1) {
    const int middle = (tensor + above) / 2;
    if (table.first_chunk[middle] <= chunk)
      tensor = middle;
    else
      above = middle;
  }
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
  while (!tensors.empty()) {
    const auto these = tensors.first(std::min<std::size_t>(tensors.size(), kTensors));
    tensors = tensors.subspan(these.size());
    Table table{};
    for (const SquaredTensor& tensor : these) {
      table.tensors[table.count] = tensor;
      table.first_chunk[table.count + 1] =
          table.first_chunk[table.count] + static_cast<std::int32_t>(squares::chunks_of(tensor.count));
      ++table.count;
    }
    const std::int32_t chunks = table.first_chunk[table.count];
    if (chunks > 0)
      with_f32_or_bf16(element, [&](auto type) {
        launch(&chunk_kernel<decltype(type)>, static_cast<unsigned>(chunks), kLanes, stream, table,
               chunk_sums);
      });
    launch(&tensor_kernel, static_cast<unsigned>(table.count), kLanes, stream, table, chunk_sums, sums);
    chunk_sums += chunks;
  }
}

}  // namespace rondo::cuda
