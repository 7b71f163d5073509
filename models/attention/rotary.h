// What attention does by the positions of tokens. Rotary embedding (Su et al., "RoFormer", 2021): its
// frequencies, its tables, and the two ways in which models pair the elements of a head. And how queries
// grow.
//
// Shape suffixes: B batch, T sequence, K width of what is rotated.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "models/parts/decoder.h"
#include "models/parts/description.h"

namespace rondo {

// "rope.cos" and "rope.sin", fp64 [seq_len, K/2]; the angle of position t is t * frequency.
std::vector<Buffer> rotary_buffers(const Rotary& rotary, std::int64_t seq_len);

// "query_growth", fp64 [seq_len, 1]: the factor on a query at position t.
Buffer query_growth_buffer(const QueryGrowth& growth, std::int64_t seq_len);

// The tables at the positions of the tokens, of the tables' dtype: [B or 1, T, 1, K/2], and of the last
// [B or 1, T, 1, 1], undefined where queries do not grow.
struct RotaryTables {
  at::Tensor cos, sin, query_growth;
};
RotaryTables rotary_tables(const ForwardInputs& inputs);

// Rotates the pairs of x [B, T, heads, K] with ops/rope/. The result of `neighbours` is in halves, in the same
// order for queries and keys, so that products of heads are those of neighbours. `none` returns x.
at::Tensor rotate(const at::Tensor& x, const RotaryTables& rope, RotatedPairs pairs);

}  // namespace rondo
