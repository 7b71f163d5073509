// Linear layers in float8. Scales are computed for each product from this rank's operands.
//
// x [N, in], weight [out, in] and gradient [N, out] have one dtype, f32, bf16 or f64, which is also
// that of the results. Sizes are multiples of float8_granule(recipe).
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "ops/float8/float8_recipe.h"

namespace rondo {

// Returns x [..., in] times the transpose of the weight. Differentiable.
at::Tensor float8_linear(const at::Tensor& x, const at::Tensor& weight, const Float8Options& options);

// The layer's three products; in the operands' own dtype without options.
at::Tensor linear_output(const at::Tensor& x, const at::Tensor& weight,
                         const std::optional<Float8Options>& options);
at::Tensor linear_grad_input(const at::Tensor& gradient, const at::Tensor& weight,
                             const std::optional<Float8Options>& options);
at::Tensor linear_grad_weight(const at::Tensor& gradient, const at::Tensor& x,
                              const std::optional<Float8Options>& options);

}  // namespace rondo
