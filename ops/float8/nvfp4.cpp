// NVFP4: checks, shape rule, and the CPU kernel. The kernel reads a matrix for its largest
// magnitude, for the sum of its bits if draws need it, and for rounding.
#include "ops/float8/nvfp4.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/bitwise_and.h>
#include <ATen/ops/bitwise_right_shift.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>
#include <torch/library.h>

#include <atomic>
#include <limits>

#include "ops/float8/float8_lines.h"
#include "ops/float8/nvfp4_math.h"
#include "ops/float8/tiles.h"
#include "ops/kernel/check_operand.h"
#include "ops/kernel/op_handle.h"
#include "ops/kernel/with_dtype.h"
#include "support/error.h"

namespace rondo {
namespace {

using at::Tensor;
using Result = std::tuple<Tensor, Tensor>;

// Multiplies each 16 numbers by signs and by the Hadamard matrix of size 16, / 4. The sums have one
// order on all devices. The signs are Transformer Engine's; bit k of the mask is that of number k.
Tensor rotated(const Tensor& x) {
  constexpr std::int64_t kNegative = 0b1101'0111'1110'1000;
  const Tensor places = at::arange(kNvfp4Block, x.options().dtype(at::kLong));
  const Tensor mask = at::full({1}, kNegative, places.options());
  const Tensor signs = 1 - 2 * at::bitwise_and(at::bitwise_right_shift(mask, places), 1).to(at::kFloat);
  Tensor y = x.view({-1, kNvfp4Block}) * signs;
  for (std::int64_t half = 1; half < kNvfp4Block; half *= 2) {
    const Tensor pairs = y.view({-1, 2, half}), first = pairs.select(1, 0), second = pairs.select(1, 1);
    y = at::stack({first + second, first - second}, 1);
  }
  return (y * 0.25).view(x.sizes());
}

// Rotates 16 numbers as `rotated` does.
void rotate_piece(float* x) {
  const Vector<float> low_signs = {1, 1, 1, -1, 1, -1, -1, -1}, high_signs = {-1, -1, -1, 1, -1, 1, -1, -1};
  Vector<float> low, high;
  load(x, low);
  load(x + kVector, high);
  low *= low_signs;
  high *= high_signs;
  for (Vector<float>* const y : {&low, &high}) {
    const Vector<float> pairs = {1, -1, 1, -1, 1, -1, 1, -1}, fours = {1, 1, -1, -1, 1, 1, -1, -1},
                        eights = {1, 1, 1, 1, -1, -1, -1, -1};
    *y = __builtin_shufflevector(*y, *y, 1, 0, 3, 2, 5, 4, 7, 6) + *y * pairs;
    *y = __builtin_shufflevector(*y, *y, 2, 3, 0, 1, 6, 7, 4, 5) + *y * fours;
    *y = __builtin_shufflevector(*y, *y, 4, 5, 6, 7, 0, 1, 2, 3) + *y * eights;
  }
  store<float>((low + high) * 0.25F, x);
  store<float>((low - high) * 0.25F, x + kVector);
}

// The numbers of a tile in f32, rotated if that is asked for.
struct Numbers {
  static constexpr std::int64_t kMaxRows = 32;
  float x[kMaxRows][kTileColumns];

  template <class T>
  void read(const Tile<T>& tile, bool rotate) {
    for (std::int64_t row = 0; row < tile.rows; ++row) {
      const T* const from = tile.line(row);
      for (std::int64_t i = 0; i < tile.columns; ++i) x[row][i] = static_cast<float>(from[i]);
      if (rotate)
        for (std::int64_t i = 0; i < tile.columns; i += kNvfp4Block) rotate_piece(x[row] + i);
    }
  }
};

// Returns the largest magnitude of the matrix, of which nans are the largest.
template <class T>
float largest_number(const Tensor& x, bool rotate) {
  if (!rotate) return static_cast<float>(largest_magnitude<T>(x, Nans::kept));
  // Compares bits as integers, so that the order of tiles does not matter.
  std::atomic<std::int32_t> largest = 0;
  for_each_tile<T>(x, 1, kNvfp4Block, [&](const Tile<T>& tile) {
    Numbers numbers;
    numbers.read(tile, rotate);
    std::int32_t of_tile = 0;
    for (std::int64_t row = 0; row < tile.rows; ++row)
      of_tile = std::max(of_tile, largest_bits(numbers.x[row], tile.columns, Nans::kept));
    for (std::int32_t seen = largest; seen < of_tile && !largest.compare_exchange_weak(seen, of_tile);) {
    }
  });
  return magnitude_of<float>(largest);
}

template <class T>
std::int64_t sum_of_bits(const Tensor& x) {
  std::uint64_t sum = 0;
  for (const std::uint64_t part : results_of_parts<T>(x, [](const T*from, std::int64_t count) {
         std::uint64_t bits = 0;
         for (std::int64_t i = 0; i < count; ++i)
           bits += static_cast<std::uint64_t>(std::int64_t{bits_of_element(from[i])});
         return bits;
       }))
    sum += part;
  return static_cast<std::int64_t>(sum);
}

struct Job {
  std::int64_t width;  // of the matrix
  bool squares, rotate, stochastic;
  float encode;
  std::int64_t stream;
  std::uint64_t bits;
  std::uint8_t* values;
  float* scales;
};

// Writes the draws of elements from `first` on, which 8 divides.
void draw(const RoundingDraws& draws, std::int64_t first, std::int64_t count, std::uint64_t bits,
          std::uint16_t* __restrict drawn) {
  const auto low = static_cast<std::uint32_t>(bits), high = static_cast<std::uint32_t>(bits >> 32);
  for (std::int64_t group = 0; group < count / kDrawGroup; ++group) {
    const PhiloxWords words = draws.words(first / kDrawGroup + group, low, high);
    for (int k = 0; k < kDrawGroup; ++k)
      drawn[group * kDrawGroup + k] = static_cast<std::uint16_t>(draw_of(words, k));
  }
}

// Rounds to nearest without draws.
void round_numbers(const float* x, const float* factors, const std::uint16_t* drawn, std::int64_t count,
                   std::uint8_t* __restrict to) {
  if (drawn == nullptr)
    for (std::int64_t i = 0; i < count; ++i) to[i] = nvfp4::number_of(x[i] * factors[i]);
  else
    for (std::int64_t i = 0; i < count; ++i) to[i] = nvfp4::number_of(x[i] * factors[i], drawn[i]);
}

template <class T>
void quantize_tile(const Tile<T>& tile, const Job& job) {
  constexpr std::int64_t kPieces = kTileColumns / kNvfp4Block;
  const std::int64_t pieces = tile.columns / kNvfp4Block, block_rows = job.squares ? kNvfp4Block : 1;
  RoundingDraws draws;
  draws.stream = job.stream;
  Numbers numbers;
  numbers.read(tile, job.rotate);
  float scales[kPieces], factors[kTileColumns];  // a factor per number
  std::uint16_t drawn[kTileColumns];
  for (std::int64_t row = 0; row < tile.rows; ++row) {
    const std::int64_t first = (tile.row + row) * job.width + tile.column;
    if (row % block_rows == 0) {
      for (std::int64_t piece = 0; piece < pieces; ++piece) {
        std::int32_t largest = 0;
        for (std::int64_t i = 0; i < block_rows; ++i)
          largest = std::max(largest,
                             largest_bits(numbers.x[row + i] + piece * kNvfp4Block, kNvfp4Block, Nans::kept));
        scales[piece] = nvfp4::scale_of(magnitude_of<float>(largest), job.encode);
        std::fill_n(factors + piece * kNvfp4Block, kNvfp4Block, nvfp4::factor_of(scales[piece]));
      }
    }
    std::copy_n(scales, pieces, job.scales + first / kNvfp4Block);
    if (job.stochastic) draw(draws, first, tile.columns, job.bits, drawn);
    round_numbers(numbers.x[row], factors, job.stochastic ? drawn : nullptr, tile.columns,
                  job.values + first);
  }
}

Result quantize_nvfp4_cpu(const Tensor& x, bool squares, bool rotate, std::optional<std::int64_t> stream) {
  Result result = quantize_nvfp4_result(x);
  const auto& [values, scales] = result;
  with_dtype(x, "quantize_nvfp4", [&](auto type) {
    using T = decltype(type);
    const float largest = largest_number<T>(x, rotate);
    if (!(largest <= nvfp4::kLargestFloat)) {
      scales.fill_(std::numeric_limits<float>::quiet_NaN());
      values.view(at::kByte).zero_();
      return;
    }
    const Job job{x.size(1),
                  squares,
                  rotate,
                  stream.has_value(),
                  nvfp4::encode_of(largest),
                  stream.value_or(0),
                  static_cast<std::uint64_t>(stream ? sum_of_bits<T>(x) : 0),
                  static_cast<std::uint8_t*>(values.mutable_data_ptr()),
                  scales.mutable_data_ptr<float>()};
    for_each_tile<T>(x, squares ? kNvfp4Block : 1, kNvfp4Block,
                     [&job](const Tile<T>& tile) { quantize_tile(tile, job); });
  });
  return result;
}

Result quantize_nvfp4_shape(const Tensor& x, bool, bool, std::optional<std::int64_t>) {
  return quantize_nvfp4_result(x);
}

}  // namespace

Result quantize_nvfp4(const Tensor& x, const Nvfp4Options& options) {
  static const auto handle = op_handle<decltype(quantize_nvfp4_cpu)>("rondo::quantize_nvfp4");
  return handle.call(x, options.squares, options.rotate, options.stream);
}

Result quantize_nvfp4_result(const Tensor& x) {
  check_float("quantize_nvfp4", "x", x);
  RONDO_ASSERT(x.dim() == 2 && x.numel() > 0 && (x.stride(0) == 1 || x.stride(1) == 1),
               "quantize_nvfp4: x must be a matrix with dense rows or dense columns");
  RONDO_ASSERT(x.size(0) % kNvfp4Block == 0 && x.size(1) % kNvfp4Block == 0,
               "quantize_nvfp4: the sizes of x must be multiples of 16");
  return {at::empty(x.sizes(), x.options().dtype(at::kFloat8_e4m3fn)),
          at::empty({x.size(0), x.size(1) / kNvfp4Block}, x.options().dtype(at::kFloat))};
}

Nvfp4Operand nvfp4_operand(const Tensor& x, bool rotate, bool stochastic) {
  Nvfp4Operand operand;
  if (stochastic) {
    const at::ScalarType integers = x.element_size() == 2   ? at::kShort
                                    : x.element_size() == 4 ? at::kInt
                                                            : at::kLong;
    operand.bits = x.view(integers).sum(at::kLong);
  }
  operand.x = x.to(at::kFloat).contiguous();
  if (rotate) operand.x = rotated(operand.x);
  operand.largest = at::abs(operand.x).amax();
  return operand;
}

TORCH_LIBRARY_FRAGMENT(rondo, m) {
  m.def("quantize_nvfp4(Tensor x, bool squares, bool rotate, int? stream) -> (Tensor values, Tensor scales)");
}
TORCH_LIBRARY_IMPL(rondo, Meta, m) { m.impl("quantize_nvfp4", &quantize_nvfp4_shape); }
TORCH_LIBRARY_IMPL(rondo, CPU, m) { m.impl("quantize_nvfp4", &quantize_nvfp4_cpu); }

}  // namespace rondo
