// AdamW (Loshchilov and Hutter, 2019) and Adam (Kingma and Ba, 2015) on all parameters of a rank at
// once:
//
//   rondo::adamw(parameters, exp_avgs, exp_avg_sqs, gradients,
//                step, learning_rate, gradient_scale, found_inf,
//                beta1, beta2, eps, weight_decay, decoupled_weight_decay, rounding)
//     -> (parameters, exp_avgs, exp_avg_sqs)
//   rondo::adamw_(parameters!, exp_avgs!, exp_avg_sqs!, ...) -> ()
//
//   g = gradient / gradient_scale                    g += weight_decay * parameter       (Adam)
//   exp_avg    = beta1 exp_avg    + (1 - beta1) g    parameter *= 1 - lr * weight_decay  (AdamW)
//   exp_avg_sq = beta2 exp_avg_sq + (1 - beta2) g^2
//   parameter -= lr / (1 - beta1^step) * exp_avg / (sqrt(exp_avg_sq) / sqrt(1 - beta2^step) + eps)
//
// The four lists have the same length. Tensors at the same index have the same shape and dtype:
// f32, bf16 or (on the CPU) f64. As an exception, f32 parameters may have both moments in bf16, and
// gradients in bf16. Overwritten tensors are contiguous. step (the number of this update, from 1),
// learning_rate, gradient_scale and found_inf are f32 []. All tensors are on one device. If
// found_inf is not 0, no bit of the parameters and moments changes. Gradients are only read.
//
// Elements are computed in f32 (f64 in f64) and rounded once, in the same order of operations on
// every device (adamw_math.h), so CPU and CUDA give the same bits. With beta1 above 0.5 these are
// the bits of LibTorch's CPU kernel (_fused_adamw_ with AVX2 or AVX-512). The exception is the last
// ulp of exp_avg_sq in elements at the end of a tensor that do not fill a vector there.
//
// `rounding` says how results become bf16. Empty: to nearest. Then an element does not change if
// its change is below 1 / 512 of it, as are most updates of a parameter, and the decay of an
// exp_avg_sq with beta2 = 0.999. Otherwise stochastically, which keeps such changes in the mean:
// five integers for each tensor, the members of RoundingDraws (ops/random/stochastic_rounding.h) in
// their order. Results in f32 and f64 have the same bits in either way.
//
// Throws Error(internal) for other shapes or dtypes. Has no autograd formula.
#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>
#include <vector>

#include "ops/adamw/adamw_math.h"

namespace rondo {

struct AdamWOperands {
  at::TensorList parameters, exp_avgs, exp_avg_sqs, gradients;
  const at::Tensor &step, &learning_rate, &gradient_scale, &found_inf;
  at::IntArrayRef rounding = {};
};

void adamw_(const AdamWOperands& operands, const AdamWOptions& options);
using AdamWResults = std::tuple<std::vector<at::Tensor>, std::vector<at::Tensor>, std::vector<at::Tensor>>;
// Returns parameters, exp_avgs, exp_avg_sqs.
AdamWResults adamw(const AdamWOperands& operands, const AdamWOptions& options);

// Checks the operands, for the kernels of every device and the shape rule.
void check_adamw(const AdamWOperands& operands);

}  // namespace rondo
