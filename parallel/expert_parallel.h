// Experts divided among ranks (Lepikhin et al., "GShard", 2020): each rank of a group has tokens of its own
// and some of the experts, and rows travel to the experts and back. Shapes are static: a rank has room for a
// fixed number of rows, and how many it gets stays in a device tensor. docs/experts.md has a picture of both
// exchanges.
//
// Where tensor parallelism cuts each expert, too, the ranks that share one (`sharers`) compute with each
// other's tokens, and their results are partial sums.
//
// Note [Tokens of cut experts]: they are gathered over the sharers before the exchange, and partial sums are
// reduce-scattered behind the way back. With the fixed size both gathers are one, over the ranks of both
// kinds, and so are both sums: it costs no collective. Behind an exchange by exact counts, rows are ragged,
// and gathering those would ask the host for counts and sort once more.
//
//   fixed_size    no host sync. Every rank gathers the tokens of all ranks of the group and picks the rows
//   for its own
//                 experts; sums over its own slots go home in a reduce-scatter.
//   exact_counts  each row goes to one rank (ops/all_to_all_tokens/all_to_all_tokens.h), where the host reads
//   the counts.
//
// Shape suffixes: T tokens of this rank, D model dim, K experts a token, E experts of one rank, R rows, P
// tokens of all ranks of the group.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "parallel/mesh.h"
#include "parallel/sharding.h"

namespace rondo {

enum class ExpertExchange : std::uint8_t { fixed_size, exact_counts };

struct ExpertParallel {
  AxisGroup group{};       // with one rank all experts are here
  std::int64_t place = 0;  // this rank's in it: it has experts [place * E, (place + 1) * E)
  ExpertExchange exchange = ExpertExchange::fixed_size;
  // Room for this many times the rows that a rank gets from balanced routers; 0: for all that can come.
  double capacity_factor = 0;
  AxisGroup sharers{};     // of each expert; with one rank experts are whole
  std::int64_t share = 0;  // this rank's place among them
  AxisGroup both{};        // where there are sharers: the ranks of the group and theirs

  // The ranks whose tokens meet in an expert.
  const AxisGroup& meeting() const { return sharers.ranks > 1 ? both : group; }

  // Whether rows may come that have no room: then dispatch counts them.
  bool is_bounded() const { return group.ranks > 1 && capacity_factor > 0; }
  // Rows that a rank has room for: those of all ranks' tokens, were they all for its experts, or fewer.
  std::int64_t room(std::int64_t tokens, std::int64_t experts_a_token, std::int64_t experts) const;
};

// Weights::dispatch, on_one_sharer and combine (parallel/sharding.h) over such a group.
Dispatched dispatch_tokens(const at::Tensor& x_TD, const at::Tensor& experts_TK,
                           const at::Tensor& tokens_per_expert, const ExpertParallel& options);
at::Tensor on_first_sharer(const at::Tensor& x, const ExpertParallel& options);
at::Tensor combine_rows(const at::Tensor& rows_RD, const Dispatched& dispatched, const at::Tensor& scores_TK,
                        const ExpertParallel& options);

}  // namespace rondo
