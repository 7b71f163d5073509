// Dequantizes weights in 8 bits in DeepSeek-V3's format (DeepSeek-AI, "DeepSeek-V3 Technical
// Report", 2024, section 3.3): a matrix of F8_E4M3, and a tensor of its name with a suffix that has
// one fp32 scale for each block of 128 x 128. Blocks at the right and lower edges may be
// smaller. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace rondo::hugging_face {

inline constexpr std::int64_t kBlock = 128;
inline constexpr std::string_view kScales = "_scale_inv";  // "...q_a_proj.weight_scale_inv"

// Returns the shape of the scales of a matrix.
std::vector<std::int64_t> scales_shape(const std::vector<std::int64_t>& matrix);

// Dequantizes elements [begin, begin + bits.size()) of a flattened matrix of `columns` in fp32:
// each number times the scale of its block. `bits` are these elements; `scales` are all scales of
// the matrix (fp32, little-endian, unaligned). Values that are not finite are kept.
void dequantize(std::span<const std::byte> bits, std::uint64_t begin, std::uint64_t columns,
                std::span<const std::byte> scales, std::span<float> to);

}  // namespace rondo::hugging_face
