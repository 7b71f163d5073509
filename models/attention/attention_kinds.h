// The kinds of attention that a description knows (models/parts/description.h), a file each. Each opens the
// scope "attention" and reads its weights there, in the order of its table of parameters.
//
// x [N, D]: what attention reads, of this rank's tokens; the result is what it adds to the stream. Heads are
// divided among the ranks that share the layer.
//
// Shape suffixes: B batch, T sequence, N tokens of this rank, D model dim.
#pragma once

#include <ATen/core/Tensor.h>

#include "models/attention/rotary.h"
#include "models/parts/decoder.h"
#include "models/parts/description.h"

namespace rondo {

// "wq", "wk", "wv", "wo" and, with a norm of queries and keys, "q_norm" and "k_norm";
// with sinks "sinks"; with biases one beside each weight.
at::Tensor attention(const GroupedQueryAttention& a, const at::Tensor& x_ND, const RankContext& ranks,
                     const RotaryTables& rope, const ForwardInputs& inputs);

// "wq", or "wq_a", "q_norm" and "wq_b"; "wkv_a", "kv_norm", "wkv_b", "wo".
at::Tensor attention(const LatentAttention& a, const at::Tensor& x_ND, const RankContext& ranks,
                     const RotaryTables& rope, const ForwardInputs& inputs);

}  // namespace rondo
