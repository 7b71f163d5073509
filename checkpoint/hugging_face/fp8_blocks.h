// Weights in 8 bits, as DeepSeek-V3 was published (DeepSeek-AI, "DeepSeek-V3 Technical Report", 2024,
// section 3.3): a matrix of F8_E4M3 and beside it, under its name with a suffix, an fp32 number for each
// block of 128 x 128; those at the right and lower edges may be smaller. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace rondo::hugging_face {

inline constexpr std::int64_t kBlock = 128;
inline constexpr std::string_view kScales = "_scale_inv";  // "...q_a_proj.weight_scale_inv"

// Of the scales of a matrix.
std::vector<std::int64_t> scales_shape(const std::vector<std::int64_t>& matrix);

// Elements [begin, begin + bits.size()) of a flattened matrix of `columns`, given their bits and all of its
// scales (fp32, little-endian, aligned to nothing): the number of each times that of its block, in fp32. What
// is not finite is data like any other.
void dequantize(std::span<const std::byte> bits, std::uint64_t begin, std::uint64_t columns,
                std::span<const std::byte> scales, std::span<float> to);

}  // namespace rondo::hugging_face
