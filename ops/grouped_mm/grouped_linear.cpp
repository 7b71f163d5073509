#include "ops/grouped_mm/grouped_linear.h"

#include <torch/csrc/autograd/custom_function.h>

#include "ops/float8/float8_operands.h"
#include "ops/grouped_mm/float8_grouped_mm.h"
#include "ops/grouped_mm/grouped_mm.h"

namespace rondo {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Quantizes both operands and multiplies rows of each run by the transpose of its matrix, b [E, M,
// K]. Accumulates with fewer bits, as torchao does for experts: with full sums, Hopper's kernel is
// slower than a product in bf16 (docs/results/gpu_models_2026-11-26.md).
Tensor float8_product(const Tensor& rows, const Tensor& b, const Tensor& ends, const Float8Options& options) {
  const Float8Operands operands = float8_operands(options.recipe);
  const std::int64_t piece = operands.rows.columns;
  return float8_grouped_mm(quantize_float8_runs(rows.contiguous(), ends, piece),
                           quantize_float8(b, operands.weight, at::kFloat8_e4m3fn, operands.power_of_two),
                           ends, rows.scalar_type(), /*fast_accumulation=*/piece == 0, options.emulate);
}

// Multiplies the transpose of each run of a by that run of b. All rows of a run share a scale, or
// some of them.
Tensor float8_product_of_runs(const Tensor& a, const Tensor& b, const Tensor& ends,
                              const Float8Options& options) {
  const bool whole_runs = options.recipe == Float8Recipe::rowwise;
  const Float8Operands operands = float8_operands(options.recipe);
  const std::int64_t piece = whole_runs ? kMxBlock : operands.rows.columns;
  const auto [padded_a, padded_ends] = pad_runs(a.contiguous(), ends, piece);
  const Tensor padded_b = std::get<0>(pad_runs(b.contiguous(), ends, piece));
  const auto quantized = [&, &runs = padded_ends](const Tensor& x) {
    if (whole_runs) return quantize_float8_columns(x, runs);
    return quantize_float8(x.t(), operands.rows, at::kFloat8_e4m3fn, operands.power_of_two);
  };
  return float8_grouped_mm(quantized(padded_a), quantized(padded_b), padded_ends, a.scalar_type(),
                           /*fast_accumulation=*/false, options.emulate);
}

struct GroupedLinear : torch::autograd::Function<GroupedLinear> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weight, const Tensor& ends,
                        bool inputs_first, const std::optional<Float8Options>& options) {
    at::AutoDispatchBelowAutograd below_autograd;
    context->save_for_backward({x, weight, ends});
    context->saved_data["inputs_first"] = inputs_first;
    context->saved_data["float8"] = options.has_value();
    context->saved_data["recipe"] = static_cast<std::int64_t>(options.value_or(Float8Options{}).recipe);
    context->saved_data["emulate"] = options && options->emulate;
    return grouped_output(x, weight, ends, inputs_first, options);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const bool inputs_first = context->saved_data["inputs_first"].toBool();
    const variable_list saved = context->get_saved_variables();
    const Tensor &x = saved[0], &weight = saved[1], &ends = saved[2], &gradient = gradients[0];
    std::optional<Float8Options> options;
    if (context->saved_data["float8"].toBool())
      options = {static_cast<Float8Recipe>(context->saved_data["recipe"].toInt()),
                 context->saved_data["emulate"].toBool()};
    const Tensor grad_x = grouped_grad_input(gradient, weight, ends, inputs_first, options);
    return {grad_x, grouped_grad_weight(gradient, x, ends, inputs_first, options), {}, {}, {}};
  }
};

}  // namespace

Tensor grouped_linear(const Tensor& x, const Tensor& weight, const Tensor& ends, bool inputs_first,
                      const std::optional<Float8Options>& options) {
  return GroupedLinear::apply(x, weight, ends, inputs_first, options);
}

Tensor grouped_output(const Tensor& x, const Tensor& weight, const Tensor& ends, bool inputs_first,
                      const std::optional<Float8Options>& options) {
  if (!options) return grouped_mm(x, inputs_first ? weight : weight.transpose(1, 2), ends);
  return float8_product(x, inputs_first ? weight.transpose(1, 2) : weight, ends, *options);
}

Tensor grouped_grad_input(const Tensor& gradient, const Tensor& weight, const Tensor& ends, bool inputs_first,
                          const std::optional<Float8Options>& options) {
  if (!options) return grouped_mm(gradient, inputs_first ? weight.transpose(1, 2) : weight, ends);
  return float8_product(gradient, inputs_first ? weight : weight.transpose(1, 2), ends, *options);
}

// A transposed gradient would be copied to the layout of the weight.
Tensor grouped_grad_weight(const Tensor& gradient, const Tensor& x, const Tensor& ends, bool inputs_first,
                           const std::optional<Float8Options>& options) {
  if (options && options->recipe != Float8Recipe::rowwise_with_gw_hp)
    return inputs_first ? float8_product_of_runs(x, gradient, ends, *options)
                        : float8_product_of_runs(gradient, x, ends, *options);
  return inputs_first ? grouped_mm(x.t(), gradient, ends) : grouped_mm(gradient.t(), x, ends);
}

}  // namespace rondo
