// The kernels of ops/grouped_mm/grouped_mm.h on CUDA: launched on `stream`, no wait, no memory of their own.
// Where runs end is read on the device, `ends` [experts]. No LibTorch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "ops/kernel/device.h"
#include "ops/kernel/element.h"

namespace rondo::cuda {

// --- products ---

// A matrix of any strides, in elements; a stack of them where `stack` is not 0.
struct Matrix {
  const void* data;
  std::int64_t row, column;  // strides
  std::int64_t stack = 0;
};

// a [rows, inner], b [experts, inner, columns] -> result [rows, columns], contiguous. Rows behind the last
// end: zeros.
void grouped_by_rows(Element element, const Matrix& a, const Matrix& b, const std::int32_t* ends,
                     void* result, std::int64_t rows, std::int64_t inner, std::int64_t columns,
                     std::int64_t experts, cudaStream_t stream);

// a [rows, inner], b [inner, columns], runs of the inner dimension -> result [experts, rows, columns],
// contiguous.
void grouped_by_inner(Element element, const Matrix& a, const Matrix& b, const std::int32_t* ends,
                      void* result, std::int64_t rows, std::int64_t inner, std::int64_t columns,
                      std::int64_t experts, cudaStream_t stream);

// --- what no product writes ---

// Zeros in the rows, of `row_bytes` each, behind the last end.
void clear_behind_last(void* result, const std::int32_t* ends, std::int64_t experts, std::int64_t rows,
                       std::int64_t row_bytes, cudaStream_t stream);

// Zeros in the matrices, of `matrix_bytes` each, of runs without rows.
void clear_empty(void* result, const std::int32_t* ends, std::int64_t experts, std::int64_t matrix_bytes,
                 cudaStream_t stream);

// --- which rows a block of grouped_by_rows has ---

struct RunTile {
  std::int64_t run;         // `experts`: the rows behind the last end; one more: there are fewer tiles
  std::int64_t begin, end;  // rows
};

// No run begins a tile in the middle of another, so each may end with a tile that is not full.
RONDO_DEVICE constexpr std::int64_t most_run_tiles(std::int64_t rows, std::int64_t experts,
                                                   std::int64_t tile_rows) {
  return rows / tile_rows + experts + 1;
}

// The index-th tile, of at most `tile_rows` rows, of runs that end at ends[0 .. experts) and of the rows
// behind them.
RONDO_DEVICE inline RunTile run_tile(const std::int32_t* ends, std::int64_t experts, std::int64_t rows,
                                     std::int64_t tile_rows, std::int64_t index) {
  std::int64_t begin = 0;
  for (std::int64_t run = 0; run <= experts; ++run) {
    const std::int64_t end = run < experts ? ends[run] : rows;
    const std::int64_t tiles = (end - begin + tile_rows - 1) / tile_rows;
    if (index < tiles) {
      const std::int64_t first = begin + index * tile_rows;
      return {run, first, first + tile_rows < end ? first + tile_rows : end};
    }
    index -= tiles;
    begin = end;
  }
  return {experts + 1, rows, rows};
}

}  // namespace rondo::cuda
