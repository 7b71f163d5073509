// Decides which values of the forward are saved for the backward, and which are recomputed.
//
// Only nodes of a block (Graph::blocks) and gathers of parameters are ever recomputed. Always
// saved: values that leave their block, results of random ops, host reads, reduce-scatters,
// all-reduces and, unless CompileOptions::recompute_all_to_all is set, all-to-alls. The policies,
// from the most saved to the least:
//
//   none      saves all; only gathered parameters follow CompileOptions::reshard_after_forward
//   default   saves expensive results: matrix products, attention, top-k, sorts, maxima
//             (torchtitan's
//             selective policy)
//   eager     as default, but recomputes every second matrix product of a block (torchtitan's eager
//             policy)
//   min_cut   saves the fewest bytes such that no expensive op is recomputed: a minimum cut in each
//             block between values that are available anyway and the reads of the backward
//   budget    saves what saves the most time per byte, up to a number of bytes
//   full      saves what is always saved, and CompileOptions::full_recompute_save_ops
//
// sac_and_offload decides as default does.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "compiler/ir/ir.h"
#include "compiler/ir/options.h"

namespace rondo::ir {

// True where policy default saves the results of the op.
bool is_expensive(std::string_view op);
// True where policy eager saves the results of an op in a block, except for every second product of
// a layer.
bool eager_policy_keeps(std::string_view op);

struct MemoryDecision {
  IdMap<bool> recompute;           // by node: recomputed if the backward needs it
  std::vector<std::string> notes;  // requests that could not be met
};
// Throws Error(config) for a selector of full_recompute_save_ops that matches no node of a block
// (in a stage it is a note), and for a budget below what is always saved. REQUIRES: no node
// overwrites anything.
MemoryDecision decide_memory(const Graph& graph, const CompileOptions& options);

}  // namespace rondo::ir
