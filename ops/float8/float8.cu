// A block takes a tile of 128 x 128; a thread holds four runs of eight consecutive elements in
// registers. Pieces of rows and squares are within one tile, so x is read once. Dense columns
// become rows in shared memory, as float8. If a scale spans more than a tile, an earlier kernel
// writes the largest magnitude of each part of x. Every tile reads these, from the last one on,
// which may still be in caches. The exception is a dense row that shares a scale: one block reads
// it twice, the second time from a cache.
#include <algorithm>
#include <type_traits>

#include "ops/float8/float8_cuda.h"
#include "ops/float8/float8_lines.cuh"
#include "ops/kernel/kernel_launch.cuh"

namespace rondo::cuda {
namespace {

constexpr int kTile = 128, kTileThreads = 512, kThreads = 256;
constexpr int kAlong = kTile / kVector, kAcross = kTileThreads / kAlong;
constexpr int kRuns = kTile / kAcross;  // of a thread
static_assert(kRuns == 4, "numbers of neighbouring columns make a word of float8");
// In a search of a whole matrix: concurrent runs of a thread, elements of a block, parts.
constexpr int kRunsOfPiece = 4;
constexpr std::int64_t kPiece = kThreads * kVector * kRunsOfPiece, kMaxParts = 512;
constexpr std::int64_t kLeastLines = 256, kMaxRowParts = 16;  // in a search of dense columns

// Largest magnitudes of 128 rows, as seen by kSeen threads each.
template <int kSeen>
struct LargestOfRows {
  float seen[kSeen][kTile + 4];  // four more than rows: threads of one row use different banks
  __device__ float row(int row) const {
    float largest = 0;
#pragma unroll
    for (int i = 0; i < kSeen; ++i) largest = fmaxf(largest, seen[i][row]);
    return largest;
  }
};

// --- kernels ---

// `searched`: largest magnitudes of parts of the matrix, or of each row, row by row within a part.
template <class T, Format format, bool kDenseRows>
__global__ void __launch_bounds__(kTileThreads)
    tile_kernel(Lines<T> of, const Float8Share share, const float* searched, const int parts, Float8Target to,
                const bool aligned) {
  __shared__ LargestOfRows<kDenseRows ? kAlong : kAcross> most;
  __shared__ float factors[kTile], warps[kWarp];
  // Rows of dense columns. Word w of row r is at w ^ 2 (r / 8): a warp writes to 32 banks.
  alignas(16) __shared__ std::uint32_t turned[kDenseRows ? 1 : kTile][kTile / 4];
  const int thread = static_cast<int>(threadIdx.x), along = thread % kAlong, across = thread / kAlong;
  const auto tiles_of_line = static_cast<unsigned>((of.width + kTile - 1) / kTile);
  const unsigned tile = gridDim.x - 1 - blockIdx.x;
  const std::int64_t first = static_cast<std::int64_t>(tile % tiles_of_line) * kTile,
                     first_line = static_cast<std::int64_t>(tile / tiles_of_line) * kTile;
  const std::int64_t rows = kDenseRows ? of.lines : of.width, columns = kDenseRows ? of.width : of.lines,
                     first_row = kDenseRows ? first_line : first,
                     first_column = kDenseRows ? first : first_line;
  if constexpr (!kDenseRows) {
    const std::int64_t matrix = blockIdx.z;
    of.x += matrix * rows * columns;
    searched += matrix * parts * rows;
    to.values += matrix * rows * columns;
    to.scales += matrix * rows;
  }

  Run<T> runs[kRuns];  // of rows `across`, `across` + 32, ...; or of consecutive columns
#pragma unroll
  for (int i = 0; i < kRuns; ++i)
    runs[i] = of.run(first_line + (kDenseRows ? across + i * kAcross : across * kRuns + i),
                     first + along * kVector);

  // The largest magnitude under the thread's scale: of a row of the tile, or of all of it.
  float largest = 0;
  if (share == Float8Share::piece) {
    if constexpr (kDenseRows) {
#pragma unroll
      for (int i = 0; i < kRuns; ++i) most.seen[along][across + i * kAcross] = larger(0.0f, runs[i]);
    } else {
#pragma unroll
      for (int k = 0; k < kVector; ++k) {
        float of_row = 0;
#pragma unroll
        for (int i = 0; i < kRuns; ++i) of_row = larger(of_row, runs[i][k]);
        most.seen[across][along * kVector + k] = of_row;
      }
    }
    __syncthreads();
    if (thread < kTile) largest = most.row(thread);
  } else if (!kDenseRows && share == Float8Share::row) {
    if (thread < kTile && first_row + thread < rows)
      for (int i = 0; i < parts; ++i) largest = fmaxf(largest, searched[i * rows + first_row + thread]);
  } else {
    if (share == Float8Share::square) {
#pragma unroll
      for (int i = 0; i < kRuns; ++i) largest = larger(largest, runs[i]);
    } else {
      for (int i = thread; i < parts; i += kTileThreads) largest = fmaxf(largest, searched[i]);
    }
    largest = block_largest(largest, warps);
  }
  if (thread < kTile) {
    const bool of_rows = share == Float8Share::piece || share == Float8Share::row,
               of_tiles = share == Float8Share::piece || share == Float8Share::square;
    const std::int64_t row = of_rows ? first_row + thread : first_row / kTile;
    const float factor = float8::factor_of(largest, format, to.power_of_two);
    factors[thread] = factor;
    if ((of_rows ? row < rows : thread == 0) && (of_tiles || (first_column == 0 && (of_rows || row == 0))))
      to.scales[row * to.scale_row + first_column / kTile * to.scale_column] = 1 / factor;
  }
  __syncthreads();

  if constexpr (kDenseRows) {
    write_rounded<format>([&](const auto& round) {
#pragma unroll
      for (int i = 0; i < kRuns; ++i) {
        const int row = across + i * kAcross;
        if (first_row + row >= rows) continue;
        float x[kVector];
#pragma unroll
        for (int k = 0; k < kVector; ++k) x[k] = runs[i][k] * factors[row];
        store_words(to.values + (first_row + row) * columns, first_column + along * kVector, columns, aligned,
                    round(x));
      }
    });
  } else {
    write_rounded<format>([&](const auto& round) {
#pragma unroll
      for (int k = 0; k < kVector; ++k) {
        const int row = along * kVector + k;
        float x[kRuns];
#pragma unroll
        for (int i = 0; i < kRuns; ++i) x[i] = runs[i][k] * factors[row];
        turned[row][across ^ 2 * along] = round(x).at[0];
      }
    });
    __syncthreads();
    constexpr int kSixteens = kTile / 16;  // of a row: threads that write it, 16 bytes each
#pragma unroll
    for (int i = 0; i < kTile * kSixteens / kTileThreads; ++i) {
      const int row = (thread + i * kTileThreads) / kSixteens, sixteen = thread % kSixteens,
                eight = row / kVector;
      auto words = *reinterpret_cast<const Pack<std::uint32_t, 4>*>(&turned[row][4 * (sixteen ^ eight / 2)]);
      if (eight % 2 == 1) words = {words.at[2], words.at[3], words.at[0], words.at[1]};
      if (first_row + row < rows)
        store_words(to.values + (first_row + row) * columns, first_column + sixteen * 16, columns, aligned,
                    words);
    }
  }
}

// One block per dense row.
template <class T, Format format>
__global__ void __launch_bounds__(kThreads)
    row_kernel(const Lines<T> of, const std::int32_t* rows_end, const Float8Target to, const bool aligned) {
  __shared__ float warps[kWarp];
  const std::int64_t row = blockIdx.x, step = static_cast<std::int64_t>(blockDim.x) * kVector;
  if (rows_end != nullptr && row >= *rows_end) {
    if (threadIdx.x == 0) to.scales[row * to.scale_row] = 1;
    for (std::int64_t i = threadIdx.x * kVector; i < of.width; i += step)
      store_words(to.values + row * of.width, i, of.width, aligned, Words<kVector>{});
    return;
  }
  float largest = 0;
  for (std::int64_t i = threadIdx.x * kVector; i < of.width; i += step)
    largest = larger(largest, of.run(row, i));
  const float factor = float8::factor_of(block_largest(largest, warps), format, to.power_of_two);
  if (threadIdx.x == 0) to.scales[row * to.scale_row] = 1 / factor;
  for (std::int64_t i = threadIdx.x * kVector; i < of.width; i += step) {
    const Run<T> run = of.run(row, i);
    float x[kVector];
#pragma unroll
    for (int k = 0; k < kVector; ++k) x[k] = run[k] * factor;
    write_rounded<format>(
        [&](const auto& round) { store_words(to.values + row * of.width, i, of.width, aligned, round(x)); });
  }
}

// Each block writes the largest magnitude of its part of a matrix.
template <class T>
__global__ void __launch_bounds__(kThreads)
    search_kernel(const Lines<T> in, const unsigned pieces, const unsigned pieces_of_line, float* parts) {
  __shared__ float warps[kWarp];
  float largest = 0;
  for (unsigned piece = blockIdx.x; piece < pieces; piece += gridDim.x) {
    const std::int64_t first = piece % pieces_of_line * kPiece + threadIdx.x * kVector;
    Run<T> runs[kRunsOfPiece];
#pragma unroll
    for (int i = 0; i < kRunsOfPiece; ++i)
      runs[i] = in.run(piece / pieces_of_line, first + i * kThreads * kVector);
#pragma unroll
    for (int i = 0; i < kRunsOfPiece; ++i) largest = larger(largest, runs[i]);
  }
  largest = block_largest(largest, warps);
  if (threadIdx.x == 0) parts[blockIdx.x] = largest;
}

// The largest magnitudes of 128 rows in a part of the dense columns.
template <class T>
__global__ void __launch_bounds__(kThreads)
    search_rows_kernel(Lines<T> in, const std::int64_t lines_of_part, float* parts) {
  constexpr int kSeen = kThreads / kAlong;
  __shared__ LargestOfRows<kSeen> most;
  const int thread = static_cast<int>(threadIdx.x), along = thread % kAlong, across = thread / kAlong;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kTile,
                     begin = blockIdx.y * lines_of_part,
                     end = begin + lines_of_part < in.lines ? begin + lines_of_part : in.lines,
                     matrix = blockIdx.z;
  in.x += matrix * in.lines * in.width;
  parts += matrix * gridDim.y * in.width;
  float largest[kVector] = {};
#pragma unroll 2
  for (std::int64_t line = begin + across; line < end; line += kSeen) {
    const Run<T> run = in.run(line, first + along * kVector);
#pragma unroll
    for (int k = 0; k < kVector; ++k) largest[k] = larger(largest[k], run[k]);
  }
#pragma unroll
  for (int k = 0; k < kVector; ++k) most.seen[across][along * kVector + k] = largest[k];
  __syncthreads();
  if (thread < kTile && first + thread < in.width)
    parts[blockIdx.y * in.width + first + thread] = most.row(thread);
}

// A block transposes a tile of bytes. Rows of the tile are one byte more than 128 apart, so that
// the eight threads that write one row read different banks.
__global__ void __launch_bounds__(kThreads)
    transpose_kernel(const std::int64_t rows, const std::int64_t columns, const std::uint8_t* x,
                     std::uint8_t* to, const bool aligned_rows, const bool aligned_columns) {
  constexpr int kBytes = 16, kOfLine = kTile / kBytes, kSteps = kTile * kOfLine / kThreads;
  __shared__ std::uint8_t tile[kTile][kTile + 1];
  const auto tiles_of_row = static_cast<unsigned>((columns + kTile - 1) / kTile);
  const std::int64_t first_row = static_cast<std::int64_t>(blockIdx.x / tiles_of_row) * kTile,
                     first_column = static_cast<std::int64_t>(blockIdx.x % tiles_of_row) * kTile;
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    const int item = static_cast<int>(threadIdx.x) + step * kThreads, row = item / kOfLine,
              column = item % kOfLine * kBytes;
    const std::int64_t at_row = first_row + row, at_column = first_column + column;
    Words<kBytes> words = {};
    if (at_row < rows) {
      const std::uint8_t* const from = x + at_row * columns + at_column;
      if (aligned_rows && at_column + kBytes <= columns)
        words = *reinterpret_cast<const Words<kBytes>*>(from);
      else
#pragma unroll
        for (int i = 0; i < kBytes; ++i)
          if (at_column + i < columns) words.at[i / 4] |= static_cast<std::uint32_t>(from[i]) << i % 4 * 8;
    }
#pragma unroll
    for (int i = 0; i < kBytes; ++i)
      tile[row][column + i] = static_cast<std::uint8_t>(words.at[i / 4] >> i % 4 * 8);
  }
  __syncthreads();
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    const int item = static_cast<int>(threadIdx.x) + step * kThreads, column = item / kOfLine,
              row = item % kOfLine * kBytes;
    if (first_column + column >= columns) continue;
    Words<kBytes> words = {};
#pragma unroll
    for (int i = 0; i < kBytes; ++i)
      words.at[i / 4] |= static_cast<std::uint32_t>(tile[row + i][column]) << i % 4 * 8;
    store_words(to + (first_column + column) * rows, first_row + row, rows, aligned_columns, words);
  }
}

// --- launches ---

std::int64_t count_of_lines(const Float8Source& x) { return x.dense_rows ? x.rows : x.columns; }
std::int64_t width_of_lines(const Float8Source& x) { return x.dense_rows ? x.columns : x.rows; }

template <class T>
Lines<T> lines_of(const Float8Source& x) {
  const std::int64_t count = count_of_lines(x), apart = x.stride * static_cast<std::int64_t>(sizeof(T));
  return {static_cast<const T*>(x.x), count, width_of_lines(x), x.stride,
          aligned(x.x, count == 1 && x.matrices == 1 ? 0 : apart)};
}

// Returns the matrix as one line if there are no gaps between its lines.
Float8Source as_few_lines(const Float8Source& x) {
  if (x.stride != width_of_lines(x)) return x;
  return {1, x.rows * x.columns, x.element, x.x, /*dense_rows=*/true, x.rows * x.columns};
}

unsigned pieces_of_line(const Float8Source& few) { return blocks_for(width_of_lines(few), kPiece); }
unsigned pieces_of(const Float8Source& few) {
  return pieces_of_line(few) * static_cast<unsigned>(count_of_lines(few));
}
std::int64_t columns_of_part(const Float8Source& x) {
  return std::max(kLeastLines, (x.columns + kMaxRowParts - 1) / kMaxRowParts);
}

// Returns the number of parts of the matrix, or of each row, that are searched first.
unsigned parts_of(const Float8Source& x, Float8Share share) {
  if (share == Float8Share::whole)
    return static_cast<unsigned>(std::min<std::int64_t>(kMaxParts, pieces_of(as_few_lines(x))));
  return share == Float8Share::row && !x.dense_rows ? blocks_for(x.columns, columns_of_part(x)) : 0;
}

bool values_aligned(const Float8Source& x, const Float8Target& to) {
  return aligned(to.values, x.rows == 1 && x.matrices == 1 ? 0 : x.columns);
}

// Calls f(element type of x, format).
template <class F>
void with_types(Element element, Format format, const F& f) {
  with_f32_or_bf16(element, [&](auto type) {
    if (format == Format::e4m3) return f(type, std::integral_constant<Format, Format::e4m3>());
    f(type, std::integral_constant<Format, Format::e5m2>());
  });
}

template <class T>
void search(const Float8Source& x, unsigned parts, float* largest, cudaStream_t stream) {
  const Float8Source few = as_few_lines(x);
  launch(&search_kernel<T>, parts, kThreads, stream, lines_of<T>(few), pieces_of(few), pieces_of_line(few),
         largest);
}

// `searched`: largest magnitudes of `parts` parts of the matrix, or of each row.
template <class T, Format format>
void round_tiles(const Float8Source& x, Float8Share share, const float* searched, unsigned parts,
                 const Float8Target& to, cudaStream_t stream) {
  const unsigned tiles = blocks_for(x.rows, kTile) * blocks_for(x.columns, kTile);
  const auto launch_tiles = [&](auto dense_rows) {
    launch(&tile_kernel<T, format, dense_rows()>, dim3(tiles, 1, static_cast<unsigned>(x.matrices)),
           kTileThreads, stream, lines_of<T>(x), share, searched, parts, to, values_aligned(x, to));
  };
  x.dense_rows ? launch_tiles(std::true_type()) : launch_tiles(std::false_type());
}

}  // namespace

std::int64_t float8_workspace(const Float8Source& x, Float8Share share) {
  return parts_of(x, share) * (share == Float8Share::row ? x.rows * x.matrices : 1);
}

void quantize_float8(const Float8Source& x, Float8Share share, const Float8Target& to, float* workspace,
                     cudaStream_t stream) {
  const unsigned parts = parts_of(x, share);
  with_types(x.element, to.format, [&](auto type, auto format) {
    using T = decltype(type);
    if (share == Float8Share::row && x.dense_rows) {
      const unsigned warps = std::min(blocks_for(x.columns, kWarp * kVector), unsigned{kThreads / kWarp});
      return launch(&row_kernel<T, format()>, static_cast<unsigned>(x.rows), warps * kWarp, stream,
                    lines_of<T>(x), x.rows_end, to, values_aligned(x, to));
    }
    if (share == Float8Share::whole)
      search<T>(x, parts, workspace, stream);
    else if (share == Float8Share::row)
      launch(&search_rows_kernel<T>,
             dim3(blocks_for(x.rows, kTile), parts, static_cast<unsigned>(x.matrices)), kThreads, stream,
             lines_of<T>(x), columns_of_part(x), workspace);
    round_tiles<T, format()>(x, share, workspace, parts, to, stream);
  });
}

// The second search is of the largest magnitudes of the parts.
void largest_magnitude(const Float8Source& x, float* largest, float* workspace, cudaStream_t stream) {
  const unsigned parts = parts_of(x, Float8Share::whole);
  with_f32_or_bf16(x.element, [&](auto type) {
    search<decltype(type)>(x, parts, parts == 1 ? largest : workspace, stream);
  });
  if (parts > 1)
    search<float>({1, parts, Element::f32, workspace, /*dense_rows=*/true, parts}, 1, largest, stream);
}

void quantize_float8_by(const Float8Source& x, const float* largest, const Float8Target& to,
                        cudaStream_t stream) {
  with_types(x.element, to.format, [&](auto type, auto format) {
    round_tiles<decltype(type), format()>(x, Float8Share::whole, largest, 1, to, stream);
  });
}

void transpose_float8(std::int64_t rows, std::int64_t columns, const std::uint8_t* x, std::uint8_t* to,
                      cudaStream_t stream) {
  launch(&transpose_kernel, blocks_for(rows, kTile) * blocks_for(columns, kTile), kThreads, stream, rows,
         columns, x, to, aligned(x, rows == 1 ? 0 : columns), aligned(to, columns == 1 ? 0 : rows));
}

}  // namespace rondo::cuda
