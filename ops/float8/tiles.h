// Matrices with dense rows or dense columns as tiles of contiguous rows, for kernels on the CPU
// that write rows. A tile of dense columns is transposed into a buffer. A cache holds the buffer,
// so a matrix is read from memory once.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstring>
#include <vector>

#include "ops/kernel/parallel_rows.h"
#include "ops/kernel/vectors.h"

namespace rondo {

template <class T>
struct Tile {
  std::int64_t row, column;  // of its first element
  std::int64_t rows, columns;
  const T* x;
  std::int64_t stride;  // from row to row

  const T* line(std::int64_t i) const { return x + i * stride; }
};

constexpr std::int64_t kTileColumns = 128;

inline bool has_dense_rows(const at::Tensor& matrix) { return matrix.stride(1) == 1 || matrix.size(1) == 1; }

// Writes the transpose of an 8 x 8 matrix. Each round interleaves rows i and i + 4.
template <class Number>
void transpose_8x8(const Number* from, std::int64_t stride, Number* to, std::int64_t to_stride) {
  Vector<Number> rows[kVector], next[kVector];
  for (int i = 0; i < kVector; ++i) std::memcpy(&rows[i], from + i * stride, sizeof(rows[i]));
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 4; ++i) {
      next[2 * i] = __builtin_shufflevector(rows[i], rows[i + 4], 0, 8, 1, 9, 2, 10, 3, 11);
      next[2 * i + 1] = __builtin_shufflevector(rows[i], rows[i + 4], 4, 12, 5, 13, 6, 14, 7, 15);
    }
    std::memcpy(rows, next, sizeof(rows));
  }
  for (int i = 0; i < kVector; ++i) std::memcpy(to + i * to_stride, &rows[i], sizeof(rows[i]));
}

// Writes contiguous rows of columns that are `stride` apart.
template <class Number>
void transpose_columns(const Number* from, std::int64_t stride, std::int64_t rows, std::int64_t columns,
                       Number* to) {
  const std::int64_t whole_rows = rows / kVector * kVector, whole_columns = columns / kVector * kVector;
  for (std::int64_t column = 0; column < whole_columns; column += kVector)
    for (std::int64_t row = 0; row < whole_rows; row += kVector)
      transpose_8x8(from + column * stride + row, stride, to + row * columns + column, columns);
  for (std::int64_t column = 0; column < columns; ++column)
    for (std::int64_t row = column < whole_columns ? whole_rows : 0; row < rows; ++row)
      to[row * columns + column] = from[column * stride + row];
}

// Calls f(tile) for tiles that partition the matrix, in parallel. Sizes of a tile are multiples of
// those of a block, except at the ends of the matrix. `block_columns` divides kTileColumns. If it
// is 0, tiles have whole rows.
template <class T, class F>
void for_each_tile(const at::Tensor& matrix, std::int64_t block_rows, std::int64_t block_columns,
                   const F& f) {
  using Number = std::conditional_t<sizeof(T) == 2, std::uint16_t,
                                    std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>>;
  const std::int64_t rows = matrix.size(0), columns = matrix.size(1);
  const bool dense_rows = has_dense_rows(matrix);
  const std::int64_t height = block_rows > 1 ? block_rows
                              : dense_rows   ? 4
                                             : 32,
                     width = block_columns == 0 ? columns : std::min(columns, kTileColumns),
                     of_rows = (rows + height - 1) / height, of_columns = (columns + width - 1) / width,
                     stride = matrix.stride(dense_rows ? 0 : 1);
  const T* const x = matrix.const_data_ptr<T>();
  const std::int64_t grain = std::max<std::int64_t>(1, 16384 / (height * width));
  parallel_runs(of_rows * of_columns, grain, [&](std::int64_t begin, std::int64_t end) {
    std::vector<Number> buffer(static_cast<std::size_t>(dense_rows ? 0 : height * width));
    with_best_vectors([&, begin, end] {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t row = i / of_columns * height, column = i % of_columns * width;
        Tile<T> tile{row,     column, std::min(height, rows - row), std::min(width, columns - column),
                     nullptr, 0};
        if (dense_rows) {
          tile.x = x + row * stride + column;
          tile.stride = stride;
        } else {
          transpose_columns(reinterpret_cast<const Number*>(x) + column * stride + row, stride, tile.rows,
                            tile.columns, buffer.data());
          tile.x = reinterpret_cast<const T*>(buffer.data());
          tile.stride = tile.columns;
        }
        f(tile);
      }
    });
  });
}

}  // namespace rondo
