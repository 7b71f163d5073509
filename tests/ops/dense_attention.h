// Attention as its definition says, in f64 and over every pair of tokens: what tests of kernels compare with.
#pragma once

#include <ATen/core/Tensor.h>

#include "ops/attention/attention_cpu.h"

namespace rondo {

// As attention_cpu.h has them, in f64. grad_sinks is undefined where there are no sinks.
struct DenseAttention {
  at::Tensor output, logsumexp, grad_q, grad_k, grad_v, grad_sinks;
};

// With the gradients that `grad` [B, H, T, V] of the output leads to.
DenseAttention dense_attention(const AttentionOperands& operands, const at::Tensor& grad);

}  // namespace rondo
