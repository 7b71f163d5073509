// A block takes 256 columns of a tile of rows of one run; a lane has eight neighboring columns. A
// warp takes every eighth row, four at a time, so that several loads are in flight. grouped_sum
// writes the sums of tiles, and a second kernel adds these: no addition is atomic.
#include "ops/grouped_mm/grouped_mm_cuda.h"
#include "ops/grouped_sum/grouped_sum_cuda.h"
#include "ops/grouped_sum/grouped_sum_math.h"
#include "ops/kernel/kernel_launch.cuh"
#include "ops/kernel/vectors.cuh"

namespace rondo::cuda {
namespace {

using grouped_sum_order::kRowsOfTile, grouped_sum_order::kSumsOfTile;

constexpr int kThreads = 256, kWarps = kThreads / kWarp, kColumns = kWarp * kVector;
constexpr int kAddedRows = 64;  // of a block of grouped_add
constexpr int kAtOnce = 4;      // rows that a warp loads at once
static_assert(kWarps == kSumsOfTile && kColumns == kThreads);

__device__ std::int64_t first_column() {
  return static_cast<std::int64_t>(blockIdx.y) * kColumns + threadIdx.x % kWarp * kVector;
}

// Calls each(row, values) with eight columns, from `first` on, of the rows of this warp in [begin,
// end). REQUIRES: first < width; with kAligned, rows begin at multiples of 16 bytes.
template <bool kAligned, class T, class Each>
__device__ void for_rows_of_warp(const T* x, std::int64_t width, std::int64_t begin, std::int64_t end,
                                 std::int64_t first, const Each& each) {
  std::int64_t row = begin + threadIdx.x / kWarp;
  for (; row + (kAtOnce - 1) * kWarps < end; row += kAtOnce * kWarps) {
    float values[kAtOnce][kVector];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i)
      load_some<kAligned>(x + (row + i * kWarps) * width, first, width, values[i]);
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) each(row + i * kWarps, values[i]);
  }
  for (; row < end; row += kWarps) {
    float values[kVector];
    load_some<kAligned>(x + row * width, first, width, values);
    each(row, values);
  }
}

template <class T, bool kAligned>
__global__ void __launch_bounds__(kThreads)
    add_kernel(const T* x, const T* __restrict__ bias, const std::int32_t* __restrict__ ends, T* result,
               std::int64_t rows, std::int64_t width, std::int64_t runs) {
  const RunTile tile = run_tile(ends, runs, rows, kAddedRows, blockIdx.x);
  const std::int64_t first = first_column();
  if (tile.run > runs || first >= width) return;
  const bool has_bias = tile.run < runs;
  float b[kVector];
  load_some<kAligned>(bias + (has_bias ? tile.run * width : 0), first, width, b);
  for_rows_of_warp<kAligned>(x, width, tile.begin, tile.end, first,
                             [&](std::int64_t row, float(&values)[kVector]) {
                               if (has_bias) {
#pragma unroll
                                 for (int d = 0; d < kVector; ++d) values[d] += b[d];
                               }
                               store_some<kAligned>(result + row * width, first, width, values);
                             });
}

template <class T, bool kAligned>
__global__ void __launch_bounds__(kThreads)
    tile_sums_kernel(const T* __restrict__ x, const std::int32_t* __restrict__ ends,
                     float* __restrict__ parts, std::int64_t rows, std::int64_t width, std::int64_t runs) {
  __shared__ float of_warps[kWarps][kColumns];
  const RunTile tile = run_tile(ends, runs, rows, kRowsOfTile, blockIdx.x);
  if (tile.run >= runs) return;
  float sums[kVector] = {};
  const std::int64_t first = first_column();
  if (first < width)
    for_rows_of_warp<kAligned>(x, width, tile.begin, tile.end, first,
                               [&](std::int64_t, const float(&values)[kVector]) {
#pragma unroll
                                 for (int d = 0; d < kVector; ++d) sums[d] += values[d];
                               });
#pragma unroll
  for (int d = 0; d < kVector; ++d)
    of_warps[threadIdx.x / kWarp][threadIdx.x % kWarp * kVector + d] = sums[d];
  __syncthreads();
  float sum = of_warps[0][threadIdx.x];
#pragma unroll
  for (int warp = 1; warp < kWarps; ++warp) sum += of_warps[warp][threadIdx.x];
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.y) * kColumns + threadIdx.x;
  if (column < width) parts[blockIdx.x * width + column] = sum;
}

__device__ std::int64_t tiles_of(const std::int32_t* ends, std::int64_t run) {
  return (ends[run] - (run == 0 ? 0 : ends[run - 1]) + kRowsOfTile - 1) / kRowsOfTile;
}

// Adds the tiles of run blockIdx.y.
template <class T>
__global__ void __launch_bounds__(kThreads)
    run_sums_kernel(const float* __restrict__ parts, const std::int32_t* __restrict__ ends,
                    T* __restrict__ result, std::int64_t width) {
  const std::int64_t run = blockIdx.y;
  std::int64_t before = 0;
  for (std::int64_t other = threadIdx.x % kWarp; other < run; other += kWarp) before += tiles_of(ends, other);
  before = warp_sum(before);
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (column >= width) return;
  float sum = 0;
#pragma unroll 4
  for (std::int64_t tile = before; tile < before + tiles_of(ends, run); ++tile)
    sum += parts[tile * width + column];
  result[run * width + column] = rounded<T>(sum);
}

bool aligned_rows(const GroupedRows& in) { return aligned(in.x) && in.width % kVector == 0; }

}  // namespace

void grouped_add(const GroupedRows& in, const void* bias, void* result, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(most_run_tiles(in.rows, in.runs, kAddedRows)),
                  blocks_for(in.width, kColumns));
  with_f32_or_bf16(in.element, [&](auto type) {
    with_alignment(aligned_rows(in) && aligned(bias) && aligned(result), [&](auto whole) {
      launch(&add_kernel<decltype(type), whole()>, grid, kThreads, stream, in.x, bias, in.ends, result,
             in.rows, in.width, in.runs);
    });
  });
}

std::int64_t grouped_sum_parts(const GroupedRows& in) {
  return most_run_tiles(in.rows, in.runs, kRowsOfTile);
}

void grouped_sum(const GroupedRows& in, float* parts, void* result, cudaStream_t stream) {
  const dim3 tiles(static_cast<unsigned>(grouped_sum_parts(in)), blocks_for(in.width, kColumns));
  const dim3 runs(blocks_for(in.width, kThreads), static_cast<unsigned>(in.runs));
  with_f32_or_bf16(in.element, [&](auto type) {
    with_alignment(aligned_rows(in), [&](auto whole) {
      launch(&tile_sums_kernel<decltype(type), whole()>, tiles, kThreads, stream, in.x, in.ends, parts,
             in.rows, in.width, in.runs);
    });
    launch(&run_sums_kernel<decltype(type)>, runs, kThreads, stream, parts, in.ends, result, in.width);
  });
}

}  // namespace rondo::cuda
