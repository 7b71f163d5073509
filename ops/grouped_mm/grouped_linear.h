// Linear layers with a weight for each run of rows (ops/grouped_mm/grouped_mm.h).
//
// x [N, in] and gradient [N, out] have one dtype, that of the weight and of the results. The weight
// is [E, out, in], or [E, in, out] with `inputs_first`. ends int32 [E]: run e ends before row
// ends[e].
//
// Float8Options select products of float8 by one of four recipes:
// - rowwise_with_gw_hp: rows of x and of the gradient have a scale each, and so has each output, or
//   input, of each run's weight. The gradient of the weight is a product in the operands' dtype:
//   LibTorch's product of float8 over runs needs runs of multiples of 16 rows.
// - rowwise: the same, and the gradient of the weight is a product of float8, too: each column of a
//   run has a scale.
// - blockwise (DeepSeek-V3): x and the gradient have a scale per 1 x 128, and weights per 128 x
//   128. In the gradient of the weight, a scale is of 128 rows of a run; the last rows of a run
//   share one.
// - mxfp8: every operand has a scale per 1 x 32 along the sum. In the gradient of the weight, it is
//   of 32 rows of a run.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "ops/float8/float8_recipe.h"

namespace rondo {

// Returns [N, out]: x times the transpose of each run's weight. Differentiable.
at::Tensor grouped_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& ends_E,
                          bool inputs_first = false, const std::optional<Float8Options>& options = {});

// The layer's three products. The gradient of the weight has its layout.
at::Tensor grouped_output(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& ends_E,
                          bool inputs_first, const std::optional<Float8Options>& options);
at::Tensor grouped_grad_input(const at::Tensor& gradient, const at::Tensor& weight, const at::Tensor& ends_E,
                              bool inputs_first, const std::optional<Float8Options>& options);
at::Tensor grouped_grad_weight(const at::Tensor& gradient, const at::Tensor& x, const at::Tensor& ends_E,
                               bool inputs_first, const std::optional<Float8Options>& options);

}  // namespace rondo
