// Linear layers with a weight for each run of rows (ops/grouped_mm/grouped_mm.h).
//
// x [N, in] and gradient [N, out] have one dtype, that of the weight and of the results. The weight
// is [E, out, in], or [E, in, out] with `inputs_first`. ends int32 [E]: run e ends before row ends[e].
#pragma once

#include <ATen/core/Tensor.h>

namespace rondo {

// Returns [N, out]: x times the transpose of each run's weight. Differentiable.
at::Tensor grouped_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& ends_E,
                          bool inputs_first = false);

// The layer's three products. The gradient of the weight has its layout.
at::Tensor grouped_output(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& ends_E,
                          bool inputs_first);
at::Tensor grouped_grad_input(const at::Tensor& gradient, const at::Tensor& weight, const at::Tensor& ends_E,
                              bool inputs_first);
at::Tensor grouped_grad_weight(const at::Tensor& gradient, const at::Tensor& x, const at::Tensor& ends_E,
                               bool inputs_first);

}  // namespace rondo
