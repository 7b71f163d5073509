// Attention on the CPU, forward and backward, for f32, bf16 and f64: FlashAttention-2 (Dao 2023, arXiv
// 2307.08691) over tiles of 32 queries and 128 keys, with masks as intervals of positions.
//
// Products of bf16 are summed in f32. Weights and gradients of scores are rounded to bf16 before they are
// multiplied; all else is in f32. f64 is f64 throughout. exp of f32 is off by at most 2 units in the last
// place, and zero below 2^-126.
//
// Order of sums: a query's, over its keys by position, the running maximum changing at positions that are
// multiples of 128; a key's, over the heads of its group, then over the queries in their order. So a result
// depends on no thread and, for a query, on no other query, nor on how keys are stored.
//
// Memory beside the results: per thread some tiles, (D + V) * 3.5 KiB or so, and in the backward the
// sums of one group's keys in f32, S * (D + V) * 4 bytes, where there are groups enough for the threads;
// else those of 256 keys. Per position 8 bytes for what a query sees, and 4 for a key that lies elsewhere.
#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>
#include <vector>

#include "ops/attention/attention.h"

namespace rondo {

namespace attention_tiles {
struct Tiles;
}

// Sets of vector instructions that this machine has, the best last.
std::vector<const attention_tiles::Tiles*> supported_attention_tiles();

// (output, logsumexp). `tiles` are this machine's best; tests name others.
std::tuple<at::Tensor, at::Tensor> attention_forward_cpu(const AttentionOperands& operands,
                                                         const attention_tiles::Tiles* tiles = nullptr);

// (grad_q, grad_k, grad_v)
std::tuple<at::Tensor, at::Tensor, at::Tensor> attention_backward_cpu(
    const AttentionOperands& operands, const at::Tensor& grad, const at::Tensor& output,
    const at::Tensor& logsumexp, const attention_tiles::Tiles* tiles = nullptr);

}  // namespace rondo
