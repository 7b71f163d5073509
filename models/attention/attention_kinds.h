// The kinds of attention in a description (models/parts/description.h), one file each. Each opens
// the scope "attention" and reads its weights there, in the order of its parameter table.
//
// x [N, D] is the input of attention for this rank's tokens. The result is added to the residual
// stream. Ranks that share the layer divide the heads.
//
// Shape suffixes: B batch, T sequence, N tokens of this rank, D model dim.
#pragma once

#include <ATen/core/Tensor.h>

#include "models/attention/rotary.h"
#include "models/parts/decoder.h"
#include "models/parts/description.h"

namespace rondo {

// Reads "wq", "wk", "wv", "wo"; "q_norm" and "k_norm" where queries and keys have a norm with
// weights; "sinks" with sinks; and a bias next to each weight with biases.
at::Tensor attention(const GroupedQueryAttention& a, const at::Tensor& x_ND, const RankContext& ranks,
                     const RotaryTables& rope, const ForwardInputs& inputs);

// Reads "wq", or "wq_a", "q_norm" and "wq_b"; then "wkv_a", "kv_norm", "wkv_b", "wo".
at::Tensor attention(const LatentAttention& a, const at::Tensor& x_ND, const RankContext& ranks,
                     const RotaryTables& rope, const ForwardInputs& inputs);

}  // namespace rondo
