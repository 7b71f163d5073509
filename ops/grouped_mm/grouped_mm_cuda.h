// Products of runs of rows (ops/grouped_mm/grouped_mm.h) on a device: launched on `stream`, no wait, no memory of their own.
// Where runs end is read on the device, `ends` [experts].
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "ops/kernel/element.h"

namespace rondo::cuda {

// A matrix of any strides, in elements; a stack of them where `stack` is not 0.
struct Matrix {
  const void* data;
  std::int64_t row, column;  // strides
  std::int64_t stack = 0;
};

// a [rows, inner], b [experts, inner, columns] -> result [rows, columns], contiguous. Rows behind the last end: zeros.
void grouped_by_rows(Element element, const Matrix& a, const Matrix& b, const std::int32_t* ends,
                     void* result, std::int64_t rows, std::int64_t inner, std::int64_t columns,
                     std::int64_t experts, cudaStream_t stream);

// a [rows, inner], b [inner, columns], runs of the inner dimension -> result [experts, rows, columns], contiguous.
void grouped_by_inner(Element element, const Matrix& a, const Matrix& b, const std::int32_t* ends,
                      void* result, std::int64_t rows, std::int64_t inner, std::int64_t columns,
                      std::int64_t experts, cudaStream_t stream);

// Zeros in the rows, of `row_bytes` each, behind the last end.
void clear_behind_last(void* result, const std::int32_t* ends, std::int64_t experts, std::int64_t rows,
                       std::int64_t row_bytes, cudaStream_t stream);

// Zeros in the matrices, of `matrix_bytes` each, of runs without rows.
void clear_empty(void* result, const std::int32_t* ends, std::int64_t experts, std::int64_t matrix_bytes,
                 cudaStream_t stream);

}  // namespace rondo::cuda
