// Expert parallelism (Lepikhin et al., "GShard", 2020): ranks divide the experts, and each rank has
// tokens of its own. Rows travel to their experts and back. Shapes are static: a rank has a fixed
// capacity of rows, and the number of rows that count stays in a device tensor. docs/experts.md has
// a picture of both exchanges:
//
//   fixed_size    No host sync. Each rank gathers the tokens of the whole group and picks the rows
//                 of its experts. Sums over its slots return in a reduce-scatter, or in an
//                 all-to-all (ExpertCombine).
//   exact_counts  Each row goes to one rank (ops/all_to_all_tokens/all_to_all_tokens.h). There the
//                 host reads the counts.
//
// ExpertCombine says how ranks add up their sums over slots, forward and backward:
//
//   reduce_scatter  In fp32, rounded once to the dtype of the rows.
//   all_to_all      Each rank rounds its sums to the dtype of the rows and sends them to the ranks
//                   of the tokens. These add them up in fp32 and round once more. In bf16, half of
//                   the bytes travel.
//
// Expert tensor parallelism cuts each expert over the ranks of the group `expert_tp`. These ranks
// compute with each other's tokens, and their results are partial sums.
//
// Note [Tokens of cut experts]: tokens are gathered over `expert_tp` before the exchange, and
// partial sums are reduce-scattered after the combine. Under fixed_size, both gathers are one, over
// the ranks of both axes, and so are both reduce-scatters: no collective is added. Under
// exact_counts the rows are ragged; gathering them after the exchange would need the counts on the
// host and another sort.
//
// Shape suffixes: T tokens of this rank, D model dim, K experts a token, E experts of this rank,
// R rows.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "parallel/choices.h"
#include "parallel/mesh.h"

namespace rondo {

struct ExpertParallelOptions {
  AxisGroup group{};
  std::int64_t rank = 0;  // rank in the group; it has experts [rank * E, (rank + 1) * E)
  ExpertExchange exchange = ExpertExchange::fixed_size;
  // Capacity, as a multiple of the rows that balanced routers send to a rank. 0: capacity for
  // all rows.
  double capacity_factor = 0;
  AxisGroup expert_tp{};            // the ranks that divide each expert
  std::int64_t expert_tp_rank = 0;  // rank in that group
  // Union of both groups; read only with several ranks in `expert_tp`.
  AxisGroup ep_and_expert_tp{};
  ExpertCombine combine = ExpertCombine::reduce_scatter;

  // The ranks whose tokens an expert computes.
  const AxisGroup& token_group() const { return expert_tp.ranks > 1 ? ep_and_expert_tp : group; }
  // Whether tokens may be dropped. If so, dispatch counts them.
  bool is_bounded() const { return group.ranks > 1 && capacity_factor > 0; }
  // Returns the capacity of a rank in rows: the worst case, or less if bounded. `tokens`: of
  // one rank.
  std::int64_t capacity(std::int64_t tokens, std::int64_t experts_a_token, std::int64_t experts) const;
};

struct Dispatched {
  // One row per expert of each token, sorted by expert; zero from the last end on.
  at::Tensor rows_RD;
  at::Tensor ends_E;  // int32: the end of each expert's rows; at most R
  // fp32 []: rows without capacity; undefined if unbounded.
  at::Tensor dropped_tokens = {};
  std::vector<at::Tensor> combine_state = {};  // what `combine` reads
};

// Dispatch to experts and combine. With one rank, that rank has all experts whole.
class ExpertParallel {
 public:
  virtual ~ExpertParallel() = default;
  // Sends tokens to their experts: int64 ids less than `experts`, the number of all experts.
  virtual Dispatched dispatch(const at::Tensor& x_TD, const at::Tensor& experts_TK,
                              std::int64_t experts) const = 0;
  // Returns x on the first rank of `expert_tp` and zeros on the others, so that combine's sum
  // contains x once.
  virtual at::Tensor once_per_expert_tp_group(const at::Tensor& x) const = 0;
  // Returns for each token the sum of its experts' results times their scores (fp32), accumulated
  // in fp32, in the dtype of the rows. `rows_RD`: the results of dispatched.rows_RD.
  virtual at::Tensor combine(const at::Tensor& rows_RD, const Dispatched& dispatched,
                             const at::Tensor& scores_TK) const = 0;
};

std::shared_ptr<const ExpertParallel> expert_parallel(const ExpertParallelOptions& options);

}  // namespace rondo
