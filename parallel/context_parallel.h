// Context parallelism: ranks share each row of the batch, a part of its tokens each. What a layer does to
// tokens one by one needs nothing of the others; attention does. Two ways, for any mask:
//
//   all_gather   keys and values of whole rows on every rank, whose queries attend to them (Llama team, "The
//                Llama 3 Herd of Models", 2024, section 3.3.2). Which tokens a rank has is free: they carry
//                positions, so that queries with few keys can share a rank with queries that have many.
//   all_to_all   whole rows of some heads on every rank (Jacobs et al., "DeepSpeed Ulysses", 2023): queries,
//                keys, values and results change places. Ranks have neighbouring tokens in their order.
//
// Autograd functions over dispatcher ops, so that a trace shows every collective as a node.
//
// Shape suffixes: B rows of the batch, N tokens of a row that are this rank's, S all of them, H heads, K
// width of a head.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "ops/attention/attention.h"
#include "parallel/mesh.h"

namespace rondo {

enum class ContextExchange : std::uint8_t { all_gather, all_to_all };

struct ContextParallel {
  AxisGroup group{};  // with one rank all of this is plain
  ContextExchange exchange = ContextExchange::all_gather;
  // Under all_gather: of how many runs of neighbours a rank's part of a row is, as context_split.h deals them
  // (datasets/); 1: rank by rank, 2: head and tail, 0: any blocks.
  std::int64_t runs = 1;
};

// [B, N, ...] -> [B, S, ...]: of each row the tokens of all ranks, in the row's order; of any blocks, by
// rank. Backward: the sum over the ranks of what is this rank's. The identity under all_to_all.
at::Tensor gather_context(const at::Tensor& x_BN, const ContextParallel& context);

// [B, ...]: the sum over the ranks, of whole numbers that fp32 holds.
at::Tensor sum_over_context(const at::Tensor& x_B, const ContextParallel& context);

// Attention of own queries [B, H, N, K]; [B, H, N, V]. Under all_to_all keys and values are own tokens, too,
// and both kinds of heads are divided; where there are fewer heads of keys than ranks, each is sent to
// several.
at::Tensor attend_over_context(const AttentionOperands& own, const ContextParallel& context);

}  // namespace rondo
