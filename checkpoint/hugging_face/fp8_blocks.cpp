#include "checkpoint/hugging_face/fp8_blocks.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "support/error.h"

namespace rondo::hugging_face {
namespace {

constexpr std::uint64_t kEdge = kBlock;

// E4M3 (Micikevicius et al., "FP8 Formats for Deep Learning", 2022): a sign, 4 bits of exponent
// with bias 7, 3 of mantissa. There is no infinity, and all ones are NaN.
float number_of(unsigned bits) {
  const unsigned exponent = bits >> 3 & 15, mantissa = bits & 7;
  float size = 0;
  if (exponent == 15 && mantissa == 7)
    size = std::numeric_limits<float>::quiet_NaN();
  else if (exponent == 0)
    size = std::ldexp(static_cast<float>(mantissa), -9);
  else
    size = std::ldexp(static_cast<float>(8 + mantissa), static_cast<int>(exponent) - 10);
  return bits >> 7 != 0 ? -size : size;
}

const std::array<float, 256>& numbers() {
  static const std::array<float, 256> table = [] {
    std::array<float, 256> values{};
    for (unsigned bits = 0; bits < values.size(); ++bits) values[bits] = number_of(bits);
    return values;
  }();
  return table;
}

}  // namespace

std::vector<std::int64_t> scales_shape(const std::vector<std::int64_t>& matrix) {
  std::vector<std::int64_t> shape;
  for (const std::int64_t size : matrix) shape.push_back((size + kBlock - 1) / kBlock);
  return shape;
}

void dequantize(std::span<const std::byte> bits, std::uint64_t begin, std::uint64_t columns,
                std::span<const std::byte> scales, std::span<float> to) {
  RONDO_ASSERT(bits.size() == to.size(), "input and output have the same number of elements");
  const std::array<float, 256>& table = numbers();
  const std::uint64_t blocks = (columns + kEdge - 1) / kEdge;  // blocks per row of blocks
  // Each iteration handles a run of elements in one row of one block.
  for (std::size_t done = 0; done < bits.size();) {
    const std::uint64_t row = (begin + done) / columns, column = (begin + done) % columns;
    const std::uint64_t block = row / kEdge * blocks + column / kEdge;
    const std::uint64_t stop = std::min(columns, (column / kEdge + 1) * kEdge);
    const std::size_t end = std::min(bits.size(), done + static_cast<std::size_t>(stop - column));
    float scale = 0;
    std::memcpy(&scale, scales.subspan(block * sizeof scale, sizeof scale).data(), sizeof scale);
    for (; done < end; ++done) to[done] = table[std::to_integer<unsigned>(bits[done])] * scale;
  }
}

}  // namespace rondo::hugging_face
