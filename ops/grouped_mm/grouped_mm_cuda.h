// The CUDA kernels of ops/grouped_mm/grouped_mm.h. They run on `stream`, do not wait and allocate
// no memory. The ends of runs, `ends` [experts], are read on the device. No LibTorch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "ops/kernel/device.h"
#include "ops/kernel/element.h"

namespace rondo::cuda {

// --- products ---

// A matrix of any strides, in elements; a stack of matrices if `stack` is not 0.
struct Matrix {
  const void* data;
  std::int64_t row, column;  // strides
  std::int64_t stack = 0;
};

// a [rows, inner], b [experts, inner, columns] -> result [rows, columns], contiguous. Rows after
// the last end are zero.
void grouped_by_rows(Element element, const Matrix& a, const Matrix& b, const std::int32_t* ends,
                     void* result, std::int64_t rows, std::int64_t inner, std::int64_t columns,
                     std::int64_t experts, cudaStream_t stream);

// a [rows, inner], b [inner, columns], runs of the inner dimension -> result [experts, rows,
// columns], contiguous.
void grouped_by_inner(Element element, const Matrix& a, const Matrix& b, const std::int32_t* ends,
                      void* result, std::int64_t rows, std::int64_t inner, std::int64_t columns,
                      std::int64_t experts, cudaStream_t stream);

// --- parts that no product writes ---

// Zeroes the rows after the last end, of `row_bytes` each.
void clear_behind_last(void* result, const std::int32_t* ends, std::int64_t experts, std::int64_t rows,
                       std::int64_t row_bytes, cudaStream_t stream);

// Zeroes the matrices of runs without rows, of `matrix_bytes` each.
void clear_empty(void* result, const std::int32_t* ends, std::int64_t experts, std::int64_t matrix_bytes,
                 cudaStream_t stream);

// --- rows of a block of grouped_by_rows ---

struct RunTile {
  std::int64_t run;         // `experts`: the rows after the last end; experts + 1: no such tile
  std::int64_t begin, end;  // rows
};

// Upper bound of the number of tiles. A tile belongs to one run, so each run may end with a partial
// tile.
RONDO_DEVICE constexpr std::int64_t most_run_tiles(std::int64_t rows, std::int64_t experts,
                                                   std::int64_t tile_rows) {
  return rows / tile_rows + experts + 1;
}

// Returns tile `index`, of at most `tile_rows` rows. Tiles cover the runs that end at ends[0 ..
// experts) and the rows after them.
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
