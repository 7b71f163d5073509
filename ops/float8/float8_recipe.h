// Recipes for the scales of float8 matrices. No LibTorch.
#pragma once

#include <cstdint>

#include "support/enum_names.h"

namespace rondo {

// The first three are torchao's (torchao/float8/config.py). `blockwise` is from the DeepSeek-V3
// report (2024, arXiv 2412.19437, section 3.3). `mxfp8` is that of the OCP Microscaling Formats
// (MX) Specification (v1.0, 2023). `nvfp4` is NVIDIA's, with numbers of E2M1 (ops/float8/nvfp4.h).
enum class Float8Recipe : std::uint8_t {
  tensorwise,          // one per matrix; gradients are E5M2
  rowwise,             // one per row of an operand, powers of two
  rowwise_with_gw_hp,  // the same, but the gradient of a weight is not a product of float8
  blockwise,           // one per 1 x 128 of an activation, and per 128 x 128 of a weight; powers of two
  mxfp8,               // one per 1 x 32 of an operand, powers of two
  nvfp4,               // one per 1 x 16, and per 16 x 16 of a weight; numbers of 4 bits
};
template <>
inline constexpr auto kNamesOf<Float8Recipe> = std::to_array<std::string_view>(
    {"tensorwise", "rowwise", "rowwise_with_gw_hp", "blockwise", "mxfp8", "nvfp4"});

// Returns how many numbers of a row of an operand share a scale. 0: all, or more than a row.
constexpr std::int64_t float8_piece(Float8Recipe recipe) {
  switch (recipe) {
    case Float8Recipe::blockwise:
      return 128;
    case Float8Recipe::mxfp8:
      return 32;
    case Float8Recipe::nvfp4:
      return 16;
    default:
      return 0;
  }
}

// Both sizes of a weight, and the number of rows multiplied with it, are multiples of this.
constexpr std::int64_t float8_granule(Float8Recipe recipe) {
  const std::int64_t piece = float8_piece(recipe);
  return piece == 0 ? 16 : piece;
}

// Returns whether a GPU of this compute capability supports the recipe's products: Ada and later;
// for blocks of 128 only Hopper. MXFP8 and NVFP4 are emulated on every GPU.
constexpr bool has_float8_products(Float8Recipe recipe, int major, int minor) {
  if (recipe == Float8Recipe::mxfp8 || recipe == Float8Recipe::nvfp4) return false;
  if (recipe == Float8Recipe::blockwise) return major == 9;
  return major > 8 || (major == 8 && minor >= 9);
}

// Returns whether a GPU of this compute capability supports the recipe's grouped products
// (ops/grouped_mm/). All but rowwise_with_gw_hp are emulated on every GPU.
constexpr bool has_float8_grouped_products(Float8Recipe recipe, int major) {
  return recipe == Float8Recipe::rowwise_with_gw_hp && major == 9;
}

struct Float8Options {
  Float8Recipe recipe = Float8Recipe::tensorwise;
  bool emulate = false;     // ops/float8/float8.h
  std::int64_t stream = 0;  // of the draws that round gradients stochastically (nvfp4)
  bool operator==(const Float8Options&) const = default;
};

}  // namespace rondo
