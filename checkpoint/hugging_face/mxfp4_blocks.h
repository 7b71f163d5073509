// Dequantizes weights in MXFP4, the format of gpt-oss (Open Compute Project, "OCP Microscaling
// Formats (MX) Specification v1.0", 2023): 4 bits per element (E2M1), two per byte, the first in
// the low half. Each 32 elements have a scale of 8 bits (E8M0), a power of two. Thread-safe.
//
// Matrices of experts are stored by expert and output, with the inputs in blocks of 32. A parameter
// "X" [experts, inputs, outputs], whose inputs are a multiple of 32, is stored as
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

// Returns the shape of the blocks of a parameter. The scales have this shape without the last
// dimension. Empty if the parameter cannot be in this format.
std::vector<std::int64_t> mxfp4_shape(const std::vector<std::int64_t>& parameter);

// The blocks and scales of whole experts, contiguous.
struct Mxfp4Experts {
  std::uint64_t inputs, outputs;
  std::span<const std::byte> blocks, scales;
};
// Dequantizes elements [begin, begin + to.size()) of the flattened [.., inputs, outputs] of these
// experts: each number times its scale. This is exact in fp32 within its range. A scale of all ones
// is NaN. Values that are not finite are kept.
void dequantize(const Mxfp4Experts& experts, std::uint64_t begin, std::span<float> to);

}  // namespace rondo::hugging_face
