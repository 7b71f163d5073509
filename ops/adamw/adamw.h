// AdamW (Loshchilov and Hutter, 2019) and Adam (Kingma and Ba, 2015) on all parameters of a rank at once:
//
//   rondo::adamw(parameters, exp_avgs, exp_avg_sqs, gradients,
//                step, learning_rate, gradient_scale, found_inf,
//                beta1, beta2, eps, weight_decay, decoupled_weight_decay)
//     -> (parameters, exp_avgs, exp_avg_sqs)
//   rondo::adamw_(parameters!, exp_avgs!, exp_avg_sqs!, ...) -> ()
//
//   g = gradient / gradient_scale                         g += weight_decay * parameter       (Adam)
//   exp_avg    = beta1 exp_avg    + (1 - beta1) g         parameter *= 1 - lr * weight_decay  (AdamW)
//   exp_avg_sq = beta2 exp_avg_sq + (1 - beta2) g^2
//   parameter -= lr / (1 - beta1^step) * exp_avg / (sqrt(exp_avg_sq) / sqrt(1 - beta2^step) + eps)
//
// The four lists are equally long; tensors of one place have one shape and one dtype, f32, bf16 or (on the
// CPU) f64, but that beside f32 both moments may be bf16, and a gradient; those that are overwritten are
// contiguous. step (the
// update being made, from 1), learning_rate, gradient_scale and found_inf are f32 []. All lie on one device.
// Where found_inf is not 0, nothing changes, not a bit. Gradients are read and never written.
//
// Elements are computed in f32 (f64 in f64) and rounded once, in one order of operations on every device
// (adamw_math.h), so CPU and CUDA give the same bits. With beta1 above 0.5 these are the bits of LibTorch's
// CPU kernel (_fused_adamw_ with AVX2 or AVX-512), but for the last ulp of an exp_avg_sq among the last
// elements of a tensor, which do not fill a vector there. Moments in bf16 are rounded to nearest: an
// exp_avg_sq does not move where its step is below 1 / 512 of it, which beta2 = 0.95 allows and 0.999 does
// not.
//
// Another shape or dtype ends in Error(internal). No formula for autograd.
#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>
#include <vector>

#include "ops/adamw/adamw_math.h"

namespace rondo {

struct AdamWOperands {
  at::TensorList parameters, exp_avgs, exp_avg_sqs, gradients;
  const at::Tensor &step, &learning_rate, &gradient_scale, &found_inf;
};

void adamw_(const AdamWOperands& operands, const AdamWOptions& options);
using AdamWResults = std::tuple<std::vector<at::Tensor>, std::vector<at::Tensor>, std::vector<at::Tensor>>;
// Parameters, exp_avgs, exp_avg_sqs.
AdamWResults adamw(const AdamWOperands& operands, const AdamWOptions& options);

// What kernels of every device, and the shape rule, begin with.
void check_adamw(const AdamWOperands& operands);

}  // namespace rondo
