// Weights in MXFP4, as gpt-oss was published (Open Compute Project, "OCP Microscaling Formats (MX)
// Specification v1.0", 2023): 4 bits an element (E2M1), two in a byte, the first in the low half; and for
// each 32 of them a scale of 8 bits (E8M0), a power of two. Thread-safe.
//
// Matrices of experts lie as they are multiplied: for each expert and each output the inputs, in blocks of
// 32. They stand for a parameter [experts, inputs, outputs] "X", whose inputs are a multiple of 32:
//
//   X_blocks  U8 [experts, outputs, inputs / 32, 16]
//   X_scales  U8 [experts, outputs, inputs / 32]
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace rondo::hugging_face {

inline constexpr std::string_view kMxfp4Blocks = "_blocks", kMxfp4Scales = "_scales";

// Of the blocks of a parameter; of its scales without the last dimension. Empty where it cannot lie so.
std::vector<std::int64_t> mxfp4_shape(const std::vector<std::int64_t>& parameter);

// The blocks and scales of whole experts, one behind the other.
struct Mxfp4Experts {
  std::uint64_t inputs, outputs;
  std::span<const std::byte> blocks, scales;
};
// Elements [begin, begin + to.size()) of the flattened [.., inputs, outputs] of these experts: the number of
// each times its scale, which fp32 holds exactly but for what is beyond its range. A scale of all ones is not
// a number. What is not finite is data like any other.
void dequantize(const Mxfp4Experts& experts, std::uint64_t begin, std::span<float> to);

}  // namespace rondo::hugging_face
