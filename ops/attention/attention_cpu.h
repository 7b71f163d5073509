// Attention on the CPU, forward and backward, for f32, bf16 and f64: FlashAttention-2 (Dao 2023,
// arXiv 2307.08691) over tiles of 32 queries and 128 keys. Masks are intervals of positions.
//
// Products of bf16 are summed in f32. Weights and gradients of scores are rounded to bf16 before
// they are multiplied; all else is in f32. f64 is f64 throughout. exp of f32 has an error of at
// most 2 units in the last place, and is zero below 2^-126.
//
// Order of sums: a query sums over its keys by position; its running maximum changes at positions
// that are multiples of 128. A key sums over the heads of its group, then over the queries in their
// order. So a result depends on no thread. A query's result depends on no other query, nor on the
// storage order of keys.
//
// Memory in addition to the results: some tiles per thread, about (D + V) * 3.5 KiB. The backward
// adds the f32 sums of one group's keys, S * (D + V) * 4 bytes, if there are enough groups for the
// threads; else those of 256 keys. Each position takes 8 bytes for the keys a query sees, and 4 for
// a key that is stored elsewhere.
#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>
#include <vector>

#include "ops/attention/attention.h"

namespace rondo {

namespace attention_tiles {
struct Tiles;
}

// Returns the sets of vector instructions of this machine, the best last.
std::vector<const attention_tiles::Tiles*> supported_attention_tiles();

// Returns (output, logsumexp). By default `tiles` is this machine's best set; tests select others.
std::tuple<at::Tensor, at::Tensor> attention_forward_cpu(const AttentionOperands& operands,
                                                         const attention_tiles::Tiles* tiles = nullptr);

// Returns (grad_q, grad_k, grad_v).
std::tuple<at::Tensor, at::Tensor, at::Tensor> attention_backward_cpu(
    const AttentionOperands& operands, const at::Tensor& grad, const at::Tensor& output,
    const at::Tensor& logsumexp, const attention_tiles::Tiles* tiles = nullptr);

}  // namespace rondo
