#include "ops/float8/float8_linear.h"

#include <ATen/ops/mm.h>
#include <torch/csrc/autograd/custom_function.h>

#include "ops/float8/float8.h"
#include "ops/float8/nvfp4.h"

namespace rondo {
namespace {

using at::Tensor;
using enum Float8Recipe;

constexpr Float8Block kWhole{0, 0}, kSquare{kFloat8Block, kFloat8Block};
// The transposed weight has the same numbers.
constexpr Nvfp4Options kOfWeight{.squares = true};

constexpr Float8Block block_of_rows(Float8Recipe recipe) {
  return recipe == tensorwise ? kWhole : Float8Block{1, float8_piece(recipe)};
}

Float8Matrix quantized(const Tensor& x, Float8Recipe recipe, Float8Block block,
                       at::ScalarType dtype = at::kFloat8_e4m3fn) {
  return quantize_float8(x, block, dtype, /*power_of_two=*/recipe != tensorwise);
}

// Quantizes an operand that is multiplied row by row.
Float8Matrix quantized_rows(const Tensor& x, Float8Recipe recipe, at::ScalarType dtype = at::kFloat8_e4m3fn) {
  return quantized(x, recipe, block_of_rows(recipe), dtype);
}

// Gradients use the larger range if a whole matrix shares a scale.
Float8Matrix quantized_gradient(const Tensor& gradient, Float8Recipe recipe) {
  return quantized_rows(gradient, recipe, recipe == tensorwise ? at::kFloat8_e5m2 : at::kFloat8_e4m3fn);
}

Tensor product(const Float8Matrix& a, const Float8Matrix& b, const Tensor& like, bool fast_accumulation,
               const Float8Options& options) {
  return float8_mm(a, b, like.scalar_type(), fast_accumulation, options.emulate);
}

struct Float8Linear : torch::autograd::Function<Float8Linear> {
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& x, const Tensor& weight,
                        const Float8Options& options) {
    at::AutoDispatchBelowAutograd below_autograd;
    context->save_for_backward({x, weight});
    context->saved_data["recipe"] = static_cast<std::int64_t>(options.recipe);
    context->saved_data["emulate"] = options.emulate;
    context->saved_data["stream"] = options.stream;
    return linear_output(x, weight, options);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const Float8Options options = {static_cast<Float8Recipe>(context->saved_data["recipe"].toInt()),
                                   context->saved_data["emulate"].toBool(),
                                   context->saved_data["stream"].toInt()};
    Tensor of_x, of_weight;
    if (context->needs_input_grad(0)) of_x = linear_grad_input(gradients[0], saved[1], options);
    if (context->needs_input_grad(1)) of_weight = linear_grad_weight(gradients[0], saved[0], options);
    return {of_x, of_weight, {}};
  }
};

}  // namespace

Tensor float8_linear(const Tensor& x, const Tensor& weight, const Float8Options& options) {
  std::vector<std::int64_t> sizes = x.sizes().vec();
  sizes.back() = weight.size(0);
  return Float8Linear::apply(x.reshape({-1, weight.size(1)}), weight, options).view(sizes);
}

Tensor linear_output(const Tensor& x, const Tensor& weight, const std::optional<Float8Options>& options) {
  if (!options) return at::mm(x, weight.t());
  const Float8Recipe recipe = options->recipe;
  if (recipe == nvfp4)
    return product(quantize_nvfp4(x, {}), quantize_nvfp4(weight, kOfWeight), x, /*fast_accumulation=*/false,
                   *options);
  const Float8Matrix of_weight =
      recipe == blockwise ? quantized(weight, recipe, kSquare) : quantized_rows(weight, recipe);
  return product(quantized_rows(x, recipe), of_weight, x, /*fast_accumulation=*/recipe != blockwise,
                 *options);
}

Tensor linear_grad_input(const Tensor& gradient, const Tensor& weight,
                         const std::optional<Float8Options>& options) {
  if (!options) return at::mm(gradient, weight);
  const Float8Recipe recipe = options->recipe;
  const Tensor transposed = weight.t();
  if (recipe == nvfp4)
    return product(quantize_nvfp4(gradient, {.stream = options->stream}),
                   quantize_nvfp4(transposed, kOfWeight), gradient, /*fast_accumulation=*/false, *options);
  const Float8Matrix of_weight = recipe == blockwise            ? quantized(transposed, recipe, kSquare)
                                 : recipe == rowwise_with_gw_hp ? quantized(transposed, recipe, kWhole)
                                                                : quantized_rows(transposed, recipe);
  return product(quantized_gradient(gradient, recipe), of_weight, gradient, /*fast_accumulation=*/false,
                 *options);
}

Tensor linear_grad_weight(const Tensor& gradient, const Tensor& x,
                          const std::optional<Float8Options>& options) {
  if (!options || options->recipe == rowwise_with_gw_hp) return at::mm(gradient.t(), x);
  const Float8Recipe recipe = options->recipe;
  // A stream of its own, since its draws are of the same bits.
  if (recipe == nvfp4)
    return product(quantize_nvfp4(gradient.t(), {.rotate = true, .stream = ~options->stream}),
                   quantize_nvfp4(x.t(), {.rotate = true}), gradient, /*fast_accumulation=*/false, *options);
  return product(quantized_gradient(gradient.t(), recipe), quantized_rows(x.t(), recipe), gradient,
                 /*fast_accumulation=*/false, *options);
}

}  // namespace rondo
