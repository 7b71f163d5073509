// Attention by definition, in f64 and over every pair of tokens: the reference of kernel tests.
#pragma once

#include <ATen/core/Tensor.h>

#include "ops/attention/attention_cpu.h"

namespace rondo {

// Results as in attention_cpu.h, in f64. grad_sinks is undefined without sinks.
struct DenseAttention {
  at::Tensor output, logsumexp, grad_q, grad_k, grad_v, grad_sinks;
};

// Computes attention and the gradients for `grad` [B, H, T, V] of the output.
DenseAttention dense_attention(const AttentionOperands& operands, const at::Tensor& grad);

}  // namespace rondo
