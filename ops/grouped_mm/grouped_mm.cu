// A tiled product: 64 x 64 results per block, 4 x 4 per thread, sums in fp32 (fp64 for fp64). The
// order of sums is fixed, so results repeat. For operands that the tensor-core kernel does not
// support: fp32 and fp64, odd widths, other GPUs.
#include "ops/grouped_mm/grouped_mm_cuda.h"
#include "ops/kernel/element.cuh"
#include "ops/kernel/kernel_launch.cuh"

namespace rondo::cuda {
namespace {

constexpr int kTile = 64, kDepth = 16, kPerThread = 4;
constexpr int kSide = kTile / kPerThread;  // threads of a block: kSide x kSide
constexpr int kThreads = kSide * kSide;

// Rows [row, row_end) and columns [column, columns) of a product over [inner_begin, inner_end),
// limited to this block's tile.
struct Tile {
  std::int64_t row, row_end, column, columns, inner_begin, inner_end;
};

template <class T>
__device__ void multiply(const Tile& tile, const T* a, const Matrix& a_of, const T* b, const Matrix& b_of,
                         T* result) {
  using Sum = SumOf<T>;
  __shared__ Sum left[kDepth][kTile + 1], right[kDepth][kTile + 1];
  const int x = threadIdx.x % kSide, y = threadIdx.x / kSide;
  Sum sums[kPerThread][kPerThread] = {};
  // Neighboring threads read neighboring elements in either layout of a matrix.
  const bool a_by_rows = a_of.row == 1, b_by_rows = b_of.row == 1;
  for (std::int64_t k0 = tile.inner_begin; k0 < tile.inner_end; k0 += kDepth) {
    for (int i = threadIdx.x; i < kTile * kDepth; i += kThreads) {
      const int m = a_by_rows ? i % kTile : i / kDepth, ka = a_by_rows ? i / kTile : i % kDepth;
      const int n = b_by_rows ? i / kDepth : i % kTile, kb = b_by_rows ? i % kDepth : i / kTile;
      const std::int64_t row = tile.row + m, column = tile.column + n;
      left[ka][m] = row < tile.row_end && k0 + ka < tile.inner_end
                        ? widened(a[row * a_of.row + (k0 + ka) * a_of.column])
                        : Sum(0);
      right[kb][n] = column < tile.columns && k0 + kb < tile.inner_end
                         ? widened(b[(k0 + kb) * b_of.row + column * b_of.column])
                         : Sum(0);
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kDepth; ++k)
#pragma unroll
      for (int i = 0; i < kPerThread; ++i)
#pragma unroll
        for (int j = 0; j < kPerThread; ++j) sums[i][j] += left[k][y + i * kSide] * right[k][x + j * kSide];
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < kPerThread; ++i)
#pragma unroll
    for (int j = 0; j < kPerThread; ++j) {
      const std::int64_t row = tile.row + y + i * kSide, column = tile.column + x + j * kSide;
      if (row < tile.row_end && column < tile.columns)
        result[row * tile.columns + column] = rounded<T>(sums[i][j]);
    }
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    by_rows_kernel(Matrix a, Matrix b, const std::int32_t* ends, T* result, std::int64_t rows,
                   std::int64_t inner, std::int64_t columns, std::int64_t experts) {
  const RunTile tile = run_tile(ends, experts, rows, kTile, blockIdx.x);
  if (tile.run > experts) return;
  const bool behind = tile.run == experts;  // nothing to multiply: zeros
  const T* const matrix = static_cast<const T*>(b.data) + (behind ? 0 : tile.run * b.stack);
  multiply<T>(
      {tile.begin, tile.end, static_cast<std::int64_t>(blockIdx.y) * kTile, columns, 0, behind ? 0 : inner},
      static_cast<const T*>(a.data), a, matrix, b, result);
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    by_inner_kernel(Matrix a, Matrix b, const std::int32_t* ends, T* result, std::int64_t rows,
                    std::int64_t columns) {
  const std::int64_t e = blockIdx.z, begin = e == 0 ? 0 : ends[e - 1], end = ends[e];
  multiply<T>({static_cast<std::int64_t>(blockIdx.y) * kTile, rows,
               static_cast<std::int64_t>(blockIdx.x) * kTile, columns, begin, end},
              static_cast<const T*>(a.data), a, static_cast<const T*>(b.data), b,
              result + e * rows * columns);
}

constexpr int kClearing = 256, kBlocksThatClear = 256;

__device__ void clear(char* begin, std::int64_t bytes) {
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kClearing + threadIdx.x;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kClearing;
  if (reinterpret_cast<std::uintptr_t>(begin) % 16 == 0 && bytes % 16 == 0) {
    for (std::int64_t i = first; i < bytes / 16; i += step)
      reinterpret_cast<int4*>(begin)[i] = int4{0, 0, 0, 0};
  } else {
    for (std::int64_t i = first; i < bytes; i += step) begin[i] = 0;
  }
}

__global__ void __launch_bounds__(kClearing)
    clear_behind_kernel(char* result, const std::int32_t* ends, std::int64_t experts, std::int64_t rows,
                        std::int64_t row_bytes) {
  const std::int64_t filled = ends[experts - 1];
  clear(result + filled * row_bytes, (rows - filled) * row_bytes);
}

__global__ void __launch_bounds__(kClearing)
    clear_empty_kernel(char* result, const std::int32_t* ends, std::int64_t matrix_bytes) {
  const std::int64_t e = blockIdx.y;
  if (ends[e] > (e == 0 ? 0 : ends[e - 1])) return;
  clear(result + e * matrix_bytes, matrix_bytes);
}

}  // namespace

void grouped_by_rows(Element element, const Matrix& a, const Matrix& b, const std::int32_t* ends,
                     void* result, std::int64_t rows, std::int64_t inner, std::int64_t columns,
                     std::int64_t experts, cudaStream_t stream) {
  // Rows are in x: a grid has at most 65,535 blocks in y, which are 4 million rows.
  const dim3 grid(static_cast<unsigned>(most_run_tiles(rows, experts, kTile)), blocks_for(columns, kTile));
  with_dtype(element, [&](auto type) {
    using T = decltype(type);
    launch(by_rows_kernel<T>, grid, kThreads, stream, a, b, ends, static_cast<T*>(result), rows, inner,
           columns, experts);
  });
}

void grouped_by_inner(Element element, const Matrix& a, const Matrix& b, const std::int32_t* ends,
                      void* result, std::int64_t rows, std::int64_t, std::int64_t columns,
                      std::int64_t experts, cudaStream_t stream) {
  const dim3 grid(blocks_for(columns, kTile), blocks_for(rows, kTile), static_cast<unsigned>(experts));
  with_dtype(element, [&](auto type) {
    using T = decltype(type);
    launch(by_inner_kernel<T>, grid, kThreads, stream, a, b, ends, static_cast<T*>(result), rows, columns);
  });
}

void clear_behind_last(void* result, const std::int32_t* ends, std::int64_t experts, std::int64_t rows,
                       std::int64_t row_bytes, cudaStream_t stream) {
  launch(clear_behind_kernel, kBlocksThatClear, kClearing, stream, static_cast<char*>(result), ends, experts,
         rows, row_bytes);
}

void clear_empty(void* result, const std::int32_t* ends, std::int64_t experts, std::int64_t matrix_bytes,
                 cudaStream_t stream) {
  const dim3 grid(16, static_cast<unsigned>(experts));
  launch(clear_empty_kernel, grid, kClearing, stream, static_cast<char*>(result), ends, matrix_bytes);
}

}  // namespace rondo::cuda
