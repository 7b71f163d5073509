// The operands of products in low precision, by recipe: of linear layers and of experts.
#pragma once

#include "ops/float8/float8.h"
#include "ops/float8/float8_recipe.h"

namespace rondo {

struct Float8Operands {
  Float8Block rows;               // of inputs and gradients, which are multiplied row by row
  Float8Block weight;             // multiplied with inputs, and by experts with gradients, too
  Float8Block transposed_weight;  // of a linear layer, multiplied with gradients
  // Gradients use the larger range if a whole matrix shares a scale.
  at::ScalarType gradient = at::kFloat8_e4m3fn;
  bool power_of_two = true;
  bool fast_output = false;  // outputs accumulate with fewer bits, if the device can
};

constexpr Float8Operands float8_operands(Float8Recipe recipe) {
  const std::int64_t piece = float8_piece(recipe);
  const Float8Block whole{0, 0}, rows{1, piece}, squares{piece, piece};
  switch (recipe) {
    case Float8Recipe::tensorwise:
      return {whole, whole, whole, at::kFloat8_e5m2, /*power_of_two=*/false, /*fast_output=*/true};
    case Float8Recipe::rowwise:
    case Float8Recipe::mxfp8:
      return {.rows = rows, .weight = rows, .transposed_weight = rows, .fast_output = true};
    case Float8Recipe::rowwise_with_gw_hp:
      return {.rows = rows, .weight = rows, .transposed_weight = whole, .fast_output = true};
    case Float8Recipe::blockwise:
    case Float8Recipe::nvfp4:  // the transposed weight has the same numbers
      return {.rows = rows, .weight = squares, .transposed_weight = squares};
  }
  return {};
}

}  // namespace rondo
