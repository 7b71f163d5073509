#include "checkpoint/hugging_face/mxfp4_blocks.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "support/error.h"

namespace rondo::hugging_face {
namespace {

constexpr std::int64_t kBlockInputs = 32;
constexpr std::uint64_t kInputs = kBlockInputs, kBlockBytes = kInputs / 2;

// E2M1: a sign, 2 bits of exponent with bias 1, 1 of mantissa.
constexpr std::array<float, 16> kCodes = {0,     0.5f,  1,  1.5f,  2,  3,  4,  6,
                                          -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};

const std::array<float, 256>& powers() {
  static const std::array<float, 256> table = [] {
    std::array<float, 256> values{};
    for (int bits = 0; bits < 255; ++bits)
      values[static_cast<std::size_t>(bits)] = std::ldexp(1.0f, bits - 127);
    values[255] = std::numeric_limits<float>::quiet_NaN();
    return values;
  }();
  return table;
}

}  // namespace

std::vector<std::int64_t> mxfp4_shape(const std::vector<std::int64_t>& parameter) {
  if (parameter.size() != 3 || parameter[1] % kBlockInputs != 0) return {};
  return {parameter[0], parameter[2], parameter[1] / kBlockInputs, kBlockInputs / 2};
}

void dequantize(const Mxfp4Experts& experts, std::uint64_t begin, std::span<float> to) {
  const std::uint64_t blocks = experts.inputs / kInputs;  // blocks per output
  const std::uint64_t of_expert = experts.inputs * experts.outputs;
  RONDO_ASSERT(
      (begin + to.size() + of_expert - 1) / of_expert * experts.outputs * blocks <= experts.scales.size() &&
          experts.blocks.size() == experts.scales.size() * kBlockBytes,
      "the blocks and scales match the elements");
  const std::array<float, 256>& scales = powers();
  // Each iteration handles a run of outputs of one input.
  for (std::size_t done = 0; done < to.size();) {
    const std::uint64_t row = (begin + done) / experts.outputs, first = (begin + done) % experts.outputs;
    const std::uint64_t input = row % experts.inputs, expert = row / experts.inputs;
    const std::uint64_t end = std::min<std::uint64_t>(experts.outputs, first + (to.size() - done));
    const unsigned shift = input % 2 == 0 ? 0 : 4;
    for (std::uint64_t output = first; output < end; ++output, ++done) {
      const std::uint64_t block = (expert * experts.outputs + output) * blocks + input / kInputs;
      const auto byte = std::to_integer<unsigned>(experts.blocks[block * kBlockBytes + input % kInputs / 2]);
      to[done] = kCodes[byte >> shift & 15] * scales[std::to_integer<std::size_t>(experts.scales[block])];
    }
  }
}

}  // namespace rondo::hugging_face
