// Attention (ops/attention/attention.h) on the CPU. No autograd.
#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>

#include "ops/attention/attention.h"

namespace rondo {

// (output, logsumexp)
std::tuple<at::Tensor, at::Tensor> attention_forward_cpu(const AttentionOperands& operands);
// (grad_q, grad_k, grad_v)
std::tuple<at::Tensor, at::Tensor, at::Tensor> attention_backward_cpu(const AttentionOperands& operands,
                                                                      const at::Tensor& grad,
                                                                      const at::Tensor& output,
                                                                      const at::Tensor& logsumexp);

}  // namespace rondo
