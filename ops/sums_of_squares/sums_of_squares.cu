// A warp takes a chunk of a tensor. A thread takes eight neighbouring lanes, so that it loads eight
// consecutive elements at once. Then a block takes the sums of a tensor's chunks, a thread a lane.
#include "ops/kernel/kernel_launch.cuh"
#include "ops/kernel/tensor_chunks.cuh"
#include "ops/kernel/vectors.cuh"
#include "ops/sums_of_squares/sums_of_squares_cuda.h"
#include "ops/sums_of_squares/sums_of_squares_math.h"

namespace rondo::cuda {
namespace {

using squares::kChunk, squares::kLanes;

using Table = TensorTable<SquaredTensor>;

constexpr int kThreads = 128, kChunksOfBlock = kThreads / kWarp;
static_assert(kLanes == kWarp * kVector);

template <class T>
using Row = Pack<T, kVector>;  // of lanes, of which a thread has eight
template <class T>
constexpr int kRows = 64 / sizeof(Row<T>);  // loaded at once: 64 bytes

__device__ void add_squares(const float (&elements)[kVector], double (&lanes)[kVector]) {
#pragma unroll
  for (int k = 0; k < kVector; ++k) lanes[k] += squares::square(elements[k]);
}

// Adds full rows, [i, end) in steps of kRows rows. The loads of the next rows are issued before
// these are added: the compiler moves loads to their uses, where each would wait for memory.
template <class T>
__device__ void add_rows(const T* x, std::int64_t i, std::int64_t end, double (&lanes)[kVector]) {
  if (i >= end) return;
  Row<T> rows[kRows<T>];
  const auto load = [&](std::int64_t from) {
#pragma unroll
    for (int r = 0; r < kRows<T>; ++r) rows[r] = *reinterpret_cast<const Row<T>*>(x + from + r * kLanes);
  };
  load(i);
#pragma unroll 1
  for (; i < end; i += kRows<T> * kLanes) {
    float elements[kRows<T>][kVector];
#pragma unroll
    for (int r = 0; r < kRows<T>; ++r)
#pragma unroll
      for (int k = 0; k < kVector; ++k) elements[r][k] = widened(rows[r].at[k]);
    if (i + kRows<T> * kLanes < end) load(i + kRows<T> * kLanes);
#pragma unroll
    for (int r = 0; r < kRows<T>; ++r) add_squares(elements[r], lanes);
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads) chunk_kernel(Table table, double* sums) {
  const auto chunk = static_cast<std::int32_t>(blockIdx.x * kChunksOfBlock + threadIdx.x / kWarp);
  if (chunk >= table.first_chunk[table.count]) return;
  const int tensor = table.tensor_of(chunk), lane = static_cast<int>(threadIdx.x) % kWarp;
  const SquaredTensor& of = table.tensors[tensor];
  const T* const x = static_cast<const T*>(of.x);
  const std::int64_t first = (chunk - table.first_chunk[tensor]) * kChunk;
  const std::int64_t end = of.count - first < kChunk ? of.count : first + kChunk;
  const std::int64_t whole = aligned(x) ? end - (end - first) % (kRows<T> * kLanes) : first;
  double lanes[kVector] = {};
  add_rows(x, first + lane * kVector, whole, lanes);
#pragma unroll 1
  for (std::int64_t i = whole + lane * kVector; i < end; i += kLanes) {
    float elements[kVector];
    // An absent element adds +0 to a sum that is not negative, which keeps every bit.
    load_some<false>(x, i, end, elements);
    add_squares(elements, lanes);
  }
#pragma unroll
  for (int k = 0; k < kVector; ++k) lanes[k] = warp_sum(lanes[k]);
#pragma unroll
  for (int half = kVector / 2; half > 0; half /= 2)
#pragma unroll
    for (int k = 0; k < half; ++k) lanes[k] += lanes[k + half];
  if (lane == 0) sums[chunk] = lanes[0];
}

__global__ void __launch_bounds__(kLanes) tensor_kernel(Table table, const double* chunk_sums, double* sums) {
  __shared__ double lanes[kLanes];
  double sum = 0;
  const std::int32_t end = table.first_chunk[blockIdx.x + 1];
#pragma unroll 8
  for (std::int64_t i = table.first_chunk[blockIdx.x] + threadIdx.x; i < end; i += kLanes)
    sum += chunk_sums[i];
  lanes[threadIdx.x] = sum;
  __syncthreads();
  for (unsigned half = kLanes / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) lanes[threadIdx.x] += lanes[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) sums[table.tensors[blockIdx.x].index] = lanes[0];
}

}  // namespace

void sums_of_squares(Element element, std::span<const SquaredTensor> tensors, double* chunk_sums,
                     double* sums, cudaStream_t stream) {
  for_each_table(tensors, kChunk, [&](const Table& table, std::int32_t chunks) {
    if (chunks > 0)
      with_f32_or_bf16(element, [&](auto type) {
        launch(&chunk_kernel<decltype(type)>, blocks_for(chunks, kChunksOfBlock), kThreads, stream, table,
               chunk_sums);
      });
    launch(&tensor_kernel, static_cast<unsigned>(table.count), kLanes, stream, table, chunk_sums, sums);
    chunk_sums += chunks;
  });
}

}  // namespace rondo::cuda
