// Which values of the forward the backward keeps, and which it computes again.
//
// Only nodes of a block (Graph::blocks) are ever computed again, and the gathering of parameters. Always
// kept: what leaves its block, results of random ops, host reads, reduce-scatters, all-reduces and, unless
// CompileOptions::recompute_all_to_all is set, all-to-alls. The policies, from the most kept to the least:
//
//   none      everything; only gathered parameters follow CompileOptions::reshard_after_forward
//   default   matrix products, attention, top-k, sorts, maxima: what is expensive to compute (torchtitan's
//             selective policy)
//   eager     the same, but every second matrix product of a block is computed again (its eager one)
//   min_cut   the fewest bytes such that nothing expensive is computed again: a minimum cut in each block
//   between
//             what is there anyway and what the backward reads
//   budget    what saves the most time per byte, up to a number of bytes
//   full      nothing but what is always kept, and CompileOptions::full_recompute_save_ops
//
// sac_and_offload decides like default.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "compiler/ir/ir.h"
#include "compiler/ir/options.h"

namespace rondo::ir {

// Whether what an op makes is worth keeping, by policy default.
bool is_expensive(std::string_view op);
// Whether policy eager keeps what an op of a block makes; but for every second product of a layer, which it
// does not.
bool eager_policy_keeps(std::string_view op);

struct MemoryDecision {
  IdMap<bool> recompute;  // for each node of the graph: if the backward needs it, it computes it again
  std::vector<std::string> notes;  // what could not be done as asked
};
// REQUIRES: no node overwrites anything. Throws Error(config) for a selector of full_recompute_save_ops that
// matches no node of a block (of a stage it is a note), and for a budget below what is always kept.
MemoryDecision decide_memory(const Graph& graph, const CompileOptions& options);

}  // namespace rondo::ir
