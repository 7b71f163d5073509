// Position-dependent parts of attention: rotary embedding (Su et al., "RoFormer", 2021) and query
// growth. Computes the rotary frequencies and tables, and supports both pairings of the elements of
// a head.
//
// Shape suffixes: B batch, T sequence, K rotated width.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "models/parts/decoder.h"
#include "models/parts/description.h"

namespace rondo {

// Returns "rope.cos" and "rope.sin", fp64 [seq_len, K/2]. The angle at position t is t * frequency.
std::vector<Buffer> rotary_buffers(const Rotary& rotary, std::int64_t seq_len);

// Returns "query_growth", fp64 [seq_len, 1]: the factor on a query at position t.
Buffer query_growth_buffer(const QueryGrowth& growth, std::int64_t seq_len);

// The tables at the tokens' positions, in the dtype of the buffers. cos and sin are [B or 1, T, 1,
// K/2]. query_growth is [B or 1, T, 1, 1], or undefined where queries do not grow.
struct RotaryTables {
  at::Tensor cos, sin, query_growth;
};
RotaryTables rotary_tables(const ForwardInputs& inputs);

// Rotates the last K elements of each head of x [B, T, heads, D] with ops/rope/ and copies the
// others. With `neighbours`, the output stores the pairs as halves, in the same order for queries
// and keys. Dot products of heads are therefore unchanged. Returns x for `none`.
at::Tensor rotate(const at::Tensor& x, const RotaryTables& rope, RotatedPairs pairs);

}  // namespace rondo
