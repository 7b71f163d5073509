#include "ops/float8/float8_linear.h"

#include <ATen/ops/mm.h>
#include <torch/csrc/autograd/custom_function.h>

#include "ops/float8/float8_operands.h"
#include "ops/float8/nvfp4.h"

namespace rondo {
namespace {

using at::Tensor;
// A product is a sum over inputs, outputs or tokens.
enum class Sum : bool { over_features, over_tokens };

// NVFP4 rounds gradients stochastically, with draws of the stream, and rotates both operands of a
// sum over tokens.
Float8Matrix quantized_nvfp4(const Tensor& x, Float8Block block, Sum sum,
                             std::optional<std::int64_t> stream = {}) {
  return quantize_nvfp4(x, {.squares = block.rows > 1, .rotate = sum == Sum::over_tokens, .stream = stream});
}

Float8Matrix quantized_input(const Tensor& x, Sum sum, const Float8Options& options) {
  const Float8Operands operands = float8_operands(options.recipe);
  if (options.recipe == Float8Recipe::nvfp4) return quantized_nvfp4(x, operands.rows, sum);
  return quantize_float8(x, operands.rows, at::kFloat8_e4m3fn, operands.power_of_two);
}

// The transposed gradient has a stream of its own, since its draws are of the same bits.
Float8Matrix quantized_gradient(const Tensor& gradient, Sum sum, const Float8Options& options) {
  const Float8Operands operands = float8_operands(options.recipe);
  if (options.recipe == Float8Recipe::nvfp4)
    return quantized_nvfp4(gradient, operands.rows, sum,
                           sum == Sum::over_tokens ? ~options.stream : options.stream);
  return quantize_float8(gradient, operands.rows, operands.gradient, operands.power_of_two);
}

Float8Matrix quantized_weight(const Tensor& weight, Float8Block block, const Float8Options& options) {
  if (options.recipe == Float8Recipe::nvfp4) return quantized_nvfp4(weight, block, Sum::over_features);
  return quantize_float8(weight, block, at::kFloat8_e4m3fn, float8_operands(options.recipe).power_of_two);
}

Tensor product(const Float8Matrix& a, const Float8Matrix& b, const Tensor& like, const Float8Options& options,
               bool fast_accumulation = false) {
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
  const Float8Operands operands = float8_operands(options->recipe);
  return product(quantized_input(x, Sum::over_features, *options),
                 quantized_weight(weight, operands.weight, *options), x, *options, operands.fast_output);
}

Tensor linear_grad_input(const Tensor& gradient, const Tensor& weight,
                         const std::optional<Float8Options>& options) {
  if (!options) return at::mm(gradient, weight);
  const Float8Block block = float8_operands(options->recipe).transposed_weight;
  const Tensor transposed = weight.t();
  return product(quantized_gradient(gradient, Sum::over_features, *options),
                 quantized_weight(transposed, block, *options), gradient, *options);
}

Tensor linear_grad_weight(const Tensor& gradient, const Tensor& x,
                          const std::optional<Float8Options>& options) {
  if (!options || options->recipe == Float8Recipe::rowwise_with_gw_hp) return at::mm(gradient.t(), x);
  return product(quantized_gradient(gradient.t(), Sum::over_tokens, *options),
                 quantized_input(x.t(), Sum::over_tokens, *options), gradient, *options);
}

}  // namespace rondo
