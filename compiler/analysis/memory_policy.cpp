// Each policy is a list of nodes to save. ForwardValues alone turns such a list into a decision, so
// the policies cannot disagree about what may be recomputed at all. min_cut is a minimum vertex cut
// in each block: a node's capacity is its bytes, sources are expensive nodes and those that are
// always saved, and sinks are the reads of the backward. A selector without a match is an error,
// since a typo would silently save nothing.
#include "compiler/analysis/memory_policy.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/analysis/forward_values.h"
#include "compiler/analysis/memory_budget.h"
#include "compiler/analysis/min_cut.h"
#include "compiler/ops/op.h"
#include "support/error.h"
#include "support/text/wildcard.h"

namespace rondo::ir {
namespace {

using Keep = IdMap<bool>;  // by node: the policy saves it

Keep keep_expensive(const Graph& graph) {
  Keep keep;
  for (const Node& node : graph.nodes) keep.push_back(is_expensive(node.op));
  return keep;
}

Keep keep_every_second_product(const Graph& graph, const ForwardValues& forward) {
  Keep keep = keep_expensive(graph);
  IdMap<int> products(graph.blocks.size(), 0);
  for (NodeIndex i = 0; i < graph.node_count(); ++i) {
    if (!facts(graph.nodes[i].op).of_linear || !forward.is_optional(i)) continue;
    if (++products[forward.block(i)] % 2 == 0) keep[i] = false;
  }
  return keep;
}

Keep keep_selected(const Graph& graph, const ForwardValues& forward, const CompileOptions& options,
                   std::vector<std::string>& notes) {
  Keep keep(graph.nodes.size(), false);
  for (const std::string& selector : options.full_recompute_save_ops) {
    const std::size_t colons = selector.find("::");
    const std::string_view module = std::string_view(selector).substr(0, colons);
    const std::string_view op =
        colons == std::string::npos ? std::string_view() : std::string_view(selector).substr(colons + 2);
    bool has_match = false;
    for (NodeIndex i = 0; i < graph.node_count(); ++i) {
      const Node& node = graph.nodes[i];
      if (node.op != op || !forward.is_optional(i) || !matches_wildcard(module, node.module)) continue;
      keep[i] = has_match = true;
    }
    if (has_match) continue;
    const std::string no_match = fmt::format(
        "compile.full_recompute_save_ops: \"{}\" matches no node of a block in {}", selector, graph.name);
    if (!options.is_stage)
      throw Error(
          ExitCode::config,
          no_match + "; give MODULE_PATTERN::aten.OP.OVERLOAD, as in the graph's text (compile.dump)");
    notes.push_back(no_match);
  }
  return keep;
}

// In each block, a minimum cut between values that are available anyway (results of expensive ops)
// and the reads of the backward. Values that leave the block are saved if they are read at all, at
// no extra cost.
Keep keep_min_cut(const Graph& graph, const ForwardValues& forward) {
  Keep keep = keep_expensive(graph);
  const IdMap<bool> read_by_backward = forward.producers_read_by_backward();
  const auto blocks = static_cast<std::int32_t>(graph.blocks.size());
  for (std::int32_t block = 0; block < blocks; ++block) {
    const std::vector<NodeIndex>& nodes = forward.producers_of(block);
    IdMap<std::size_t> place(graph.nodes.size());
    MinCut cut(nodes.size());
    for (std::size_t k = 0; k < nodes.size(); ++k) {
      const NodeIndex i = nodes[k];
      place[i] = k;
      cut.set_capacity(k, forward.bytes(i));
      if (keep[i] || !forward.is_optional(i)) cut.source(k);
      if (read_by_backward[i]) cut.sink(k);
      for_each_operand(graph.nodes[i], [&](ValueId id) {
        const NodeIndex producer = forward.producer(id);
        if (producer == kNoNode || forward.block(producer) != block) return;
        if (forward.is_optional(producer)) cut.connect(place[producer], k);
      });
    }
    const std::vector<bool> behind = cut.behind_cut();
    for (std::size_t k = 0; k < nodes.size(); ++k) keep[nodes[k]] = !behind[k];
  }
  return keep;
}

}  // namespace

bool is_expensive(std::string_view op) { return facts(op).is_heavy() || facts(op).slow_to_repeat; }

bool eager_policy_keeps(std::string_view op) { return is_expensive(op) || !is_repeatable(op, {}); }

MemoryDecision decide_memory(const Graph& graph, const CompileOptions& options) {
  const ForwardValues forward(graph, options);
  const auto keeping = [&](const Keep& keep) { return MemoryDecision{forward.recompute_all_but(keep), {}}; };
  switch (options.memory_policy) {
    case MemoryPolicy::none:
      return keeping(Keep(graph.nodes.size(), true));
    case MemoryPolicy::selective:
    case MemoryPolicy::sac_and_offload:
      return keeping(keep_expensive(graph));
    case MemoryPolicy::eager:
      return keeping(keep_every_second_product(graph, forward));
    case MemoryPolicy::min_cut:
      return keeping(keep_min_cut(graph, forward));
    case MemoryPolicy::full: {
      std::vector<std::string> notes;
      const Keep keep = keep_selected(graph, forward, options, notes);
      return {forward.recompute_all_but(keep), std::move(notes)};
    }
    case MemoryPolicy::budget:
      return fill_budget(graph, forward, options);
  }
  RONDO_ASSERT(false, "unknown memory policy");
}

}  // namespace rondo::ir
