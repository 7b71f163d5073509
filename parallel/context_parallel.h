// Context parallelism: ranks divide the tokens of each row of the batch. Only attention and sums
// over a row need the tokens of other ranks. There are two exchanges, each for any mask:
//
//   all_gather   Each rank has the keys and values of whole rows, and the queries of its own
//                tokens (Llama team, "The Llama 3 Herd of Models", 2024, section 3.3.2). Tokens
//                carry positions, so any split of a row is possible: one that balances queries
//                with few and with many keys, for example.
//   all_to_all   Each rank has whole rows of some heads: queries, keys, values and results are
//                exchanged (Jacobs et al., "DeepSpeed Ulysses", 2023). Ranks have consecutive
//                tokens, in rank order.
//
// All are autograd functions over dispatcher ops, so a trace shows every collective as a node.
//
// Shape suffixes: B rows of the batch, N tokens of a row on this rank, S tokens of a row, H heads,
// K head dim of queries and keys, V head dim of values.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "ops/attention/attention.h"
#include "parallel/choices.h"
#include "parallel/mesh.h"

namespace rondo {

struct ContextParallelOptions {
  AxisGroup group{};
  ContextExchange exchange = ContextExchange::all_gather;
  // Under all_gather, the runs of consecutive tokens in a rank's part of a row
  // (datasets/context_split.h): 1: one block a rank, 2: head and tail, 0: any blocks.
  std::int64_t runs = 1;
};

// The exchanges of attention. With one rank: the identity, and plain attention.
class ContextParallel {
 public:
  virtual ~ContextParallel() = default;
  // Gathers inputs of keys and values [B, N, ...] into [B, S, ...], in the order of
  // ForwardInputs::key_positions (models/parts/decoder.h): the row's own, or rank order for any
  // blocks. Backward: reduce-scatter. Under all_to_all: the identity.
  virtual at::Tensor all_gather(const at::Tensor& x_BN) const { return x_BN; }
  // Sums [B, ...] over the ranks. REQUIRES: whole numbers that fp32 represents.
  virtual at::Tensor all_reduce_sum(const at::Tensor& x_B) const { return x_B; }
  // Computes attention of this rank's queries [B, H, N, K] to the keys and values of all_gather:
  // [B, H, N, V]. Under all_to_all, ranks divide both query heads and key heads. With fewer key
  // heads than ranks, each is sent to several ranks.
  virtual at::Tensor attention(const AttentionOperands& operands) const;
};

std::shared_ptr<const ContextParallel> context_parallel(const ContextParallelOptions& options);

}  // namespace rondo
