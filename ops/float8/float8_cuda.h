// Quantization of ops/float8/float8.h on CUDA: plain addresses, checked by the caller. Runs on
// `stream` without waiting. No LibTorch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "ops/float8/float8_math.h"
#include "ops/kernel/element.h"

namespace rondo::cuda {

struct Float8Source {
  std::int64_t rows, columns;  // of a matrix; at least 1 each
  Element element;             // f32 or bf16
  const void* x;
  bool dense_rows;      // elements of a row are contiguous; otherwise those of a column
  std::int64_t stride;  // elements from row to row, or from column to column
  // A stack of matrices without gaps: of dense columns, and a scale is a row's.
  std::int64_t matrices = 1;
  // On the device; nullptr: all rows. Rows from it on are not read: values are 0, scales 1. Only
  // for dense rows that have a scale each.
  const std::int32_t* rows_end = nullptr;
};

// The elements that share a scale: all, a row, 128 elements of a row, 128 x 128. Sizes are
// multiples of it.
enum class Float8Share : std::uint8_t { whole, row, piece, square };

struct Float8Target {
  std::uint8_t* values;  // [matrices, rows, columns], contiguous
  float* scales;
  // numbers from a scale to the one below it, and to the one next to it
  std::int64_t scale_row, scale_column;  // those of a stack are contiguous
  float8::Format format;
  bool power_of_two;
};

// Returns how many f32 numbers quantize_float8 stores between its kernels. 0: it uses one kernel
// and no workspace.
std::int64_t float8_workspace(const Float8Source& x, Float8Share share);
void quantize_float8(const Float8Source& x, Float8Share share, const Float8Target& to, float* workspace,
                     cudaStream_t stream);

// The ops of ops/float8/shared_scale.h. The workspace has float8_workspace(x, whole) numbers.
void largest_magnitude(const Float8Source& x, float* largest, float* workspace, cudaStream_t stream);
void quantize_float8_by(const Float8Source& x, const float* largest, const Float8Target& to,
                        cudaStream_t stream);
void transpose_float8(std::int64_t rows, std::int64_t columns, const std::uint8_t* x, std::uint8_t* to,
                      cudaStream_t stream);

}  // namespace rondo::cuda
