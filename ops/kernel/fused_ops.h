// What fused ops are on every device: operands checked, and results allocated, which are contiguous. Kernels, and the
// rules of shapes, begin with these. What is not as the headers of the ops say ends in Error(internal).
#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>

namespace rondo {

using TwoTensors = std::tuple<at::Tensor, at::Tensor>;

// y and inverse_rms.
TwoTensors rms_norm_results(const at::Tensor& x, const at::Tensor& weight);
// grad_x and grad_weight.
TwoTensors rms_norm_gradients(const at::Tensor& grad, const at::Tensor& x, const at::Tensor& weight,
                              const at::Tensor& inverse_rms);
// [..., D] as [N, D] with neighbours beside each other; rows may lie apart.
at::Tensor rows_of(const at::Tensor& x);

at::Tensor swiglu_result(const at::Tensor& gate, const at::Tensor& up);
// grad_gate and grad_up.
TwoTensors swiglu_gradients(const at::Tensor& grad, const at::Tensor& gate, const at::Tensor& up);

at::Tensor rope_result(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin);

}  // namespace rondo
