// Computes the lifetime of every storage and places them by arena_layout.h.
#include "compiler/plan/memory_plan.h"

#include <algorithm>
#include <map>
#include <set>

#include "compiler/ir/def_use.h"
#include "compiler/ir/storages.h"
#include "compiler/ops/op.h"
#include "compiler/plan/arena_layout.h"
#include "support/error.h"

namespace rondo::ir {
namespace {

class Planner {
 public:
  Planner(const Graph& graph, const MemoryNeeds& needs)
      : graph_(graph),
        needs_(needs),
        roots_(storage_roots(graph)),
        last_(last_needed(graph, roots_)),
        waits_(waits_of_starts(graph)),
        block_of_(graph.values.size(), -1) {}

  MemoryPlan run() {
    plan_.alignment = needs_.alignment;
    find_inputs();
    for (NodeIndex i = 0; i < graph_.node_count(); ++i) {
      for (ValueId result : graph_.nodes[i].results)
        if (root(result) == result && bytes(result) > 0 && plan_.inputs[result] < 0 &&
            !reuse_operand(i, result))
          add_storage(i, result);
      add_workspace(i);
    }
    const ArenaSize arena = lay_out(blocks_);
    plan_.arena_bytes = arena.bytes;
    plan_.live_peak_bytes = arena.live_peak_bytes;
    plan_.host_arena_bytes = lay_out(host_blocks_).bytes;
    plan_.offsets.assign(graph_.values.size(), -1);
    for (std::size_t i = 0; i < block_of_.size(); ++i)
      if (block_of_[i] >= 0)
        plan_.offsets[i] = (graph_.values[i].on_host ? host_blocks_ : blocks_)[block_of_[i]].offset;
    for (std::size_t i = 0; i < plan_.workspaces.size(); ++i)
      plan_.workspaces[i].offset = blocks_[workspace_blocks_[i]].offset;
    plan_.ends = std::move(last_);
    return std::move(plan_);
  }

 private:
  ValueId root(ValueId value) const { return roots_[value]; }
  NodeIndex last(ValueId value) const { return last_[value]; }
  std::int64_t bytes(ValueId value) const {
    return planned_bytes(graph_.value(value).type, needs_.alignment);
  }

  // Finds storages that may be in the memory of the input that they update: no node reads the input
  // or, in host memory, none after the storage is made.
  void find_inputs() {
    plan_.inputs.assign(graph_.values.size(), -1);
    const DefUse def_use(graph_);
    for (std::size_t i = 0; i < graph_.outputs.size(); ++i) {
      const std::int32_t updated = graph_.outputs[i].updates;
      if (updated < 0) continue;
      const ValueId input = graph_.inputs[updated].value;
      const ValueId value = operand(graph_.return_node(), i), storage = root(value);
      const NodeIndex maker = def_use.maker(storage);
      const bool on_host = graph_.value(input).on_host;
      const bool is_free = last(input) == kNoNode || (on_host && last(input) < maker);
      const bool whole = storage_bytes(graph_.value(storage).type) == storage_bytes(graph_.value(value).type);
      if (maker != kNoNode && is_free && whole && graph_.value(storage).on_host == on_host)
        plan_.inputs[storage] = updated;
    }
  }

  void add_storage(NodeIndex node, ValueId value) {
    IdMap<Block>& blocks = graph_.value(value).on_host ? host_blocks_ : blocks_;
    block_of_[value] = static_cast<std::int32_t>(blocks.size());
    blocks.push_back({bytes(value), node, last(value)});
  }

  // Gives the first result of node `i` the memory of an operand that dies there, if the op allows
  // it. The block then lives on.
  bool reuse_operand(NodeIndex i, ValueId result) {
    const Node& node = graph_.nodes[i];
    const int argument = facts(node.op).reuses;
    if (argument < 0 || result != node.results[0]) return false;
    const ValueId operand = std::get<Use>(node.args[argument]).value;
    const ValueId storage = root(operand);
    const bool dies = last(storage) == i && block_of_[storage] >= 0;
    if (!dies || !may_stand_in(graph_, result, operand, storage) || reads_twice(node, storage)) return false;
    block_of_[result] = block_of_[storage];
    (graph_.value(result).on_host ? host_blocks_ : blocks_)[block_of_[result]].end = last(result);
    return true;
  }
  bool reads_twice(const Node& node, ValueId storage) const {
    int reads = 0;
    for_each_operand(node, [&](ValueId operand) { reads += root(operand) == storage; });
    return reads > 1;
  }

  void add_workspace(NodeIndex i) {
    const Node& node = graph_.nodes[i];
    if (!needs_.reduce_scatter_receives || !is_collective(node, CollectiveKind::reduce_scatter)) return;
    const std::int64_t received = storage_bytes(graph_.value(std::get<Use>(node.args.at(0)).value).type);
    if (received == 0) return;
    RONDO_ASSERT(waits_[i] >= 0, node.op + " (module \"" + node.module + "\") has no wait");
    workspace_blocks_.push_back(blocks_.size());
    plan_.workspaces.push_back({i, waits_[i], 0, received});
    blocks_.push_back({planned_bytes(received, needs_.alignment), i, waits_[i]});
  }

  const Graph& graph_;
  MemoryNeeds needs_;
  IdMap<ValueId> roots_;
  IdMap<NodeIndex> last_;   // by root
  IdMap<NodeIndex> waits_;  // by node that runs in the background
  IdMap<Block> blocks_, host_blocks_;
  IdMap<std::int32_t> block_of_;               // by root: index into its blocks, or -1
  std::vector<std::size_t> workspace_blocks_;  // by workspace
  MemoryPlan plan_;
};

}  // namespace

MemoryNeeds memory_needs(TargetDevice device) {
  if (device == TargetDevice::cpu) return {.reduce_scatter_receives = true};
  return {.alignment = 512};  // the caching allocator's blocks
}

MemoryPlan plan_memory(const Graph& graph, const MemoryNeeds& needs) { return Planner(graph, needs).run(); }

std::int64_t planned_bytes(const TensorType& type, std::int64_t alignment) {
  return planned_bytes(storage_bytes(type), alignment);
}
std::int64_t planned_bytes(std::int64_t bytes, std::int64_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

bool may_stand_in(const Graph& graph, ValueId result, ValueId operand, ValueId storage) {
  const Value &value = graph.value(result), &from = graph.value(storage);
  return value.type == graph.value(operand).type && value.on_host == from.on_host &&
         storage_bytes(value.type) == storage_bytes(from.type);
}

std::vector<std::vector<Gap>> free_gaps(const Graph& graph, const MemoryPlan& plan,
                                        std::span<const NodeIndex> nodes) {
  using Span = std::pair<std::int64_t, std::int64_t>;  // begin, end
  std::multiset<Span> live;
  std::multimap<NodeIndex, std::multiset<Span>::iterator> deaths;  // by last node
  const auto add = [&](std::int64_t offset, std::int64_t bytes, NodeIndex last) {
    deaths.emplace(last, live.emplace(offset, offset + bytes));
  };
  std::vector<std::vector<Gap>> gaps_of_nodes;
  auto workspace = plan.workspaces.begin();
  NodeIndex next = 0;
  for (const NodeIndex now : nodes) {
    for (; next <= now; ++next) {
      for (ValueId value : graph.nodes[next].results)
        if (plan.offsets[value] >= 0 && !graph.value(value).on_host)
          add(plan.offsets[value], planned_bytes(graph.value(value).type, plan.alignment), plan.ends[value]);
      for (; workspace != plan.workspaces.end() && workspace->start == next; ++workspace)
        add(workspace->offset, planned_bytes(workspace->bytes, plan.alignment), workspace->wait);
    }
    for (auto dead = deaths.begin(); dead != deaths.end() && dead->first < now; dead = deaths.erase(dead))
      live.erase(dead->second);
    std::int64_t free_from = 0;
    std::vector<Gap>& gaps = gaps_of_nodes.emplace_back();
    const auto add_gap = [&](std::int64_t to) {
      if (to > free_from) gaps.push_back({free_from, to - free_from});
    };
    for (const auto& [begin, end] : live) {
      add_gap(begin);
      free_from = std::max(free_from, end);
    }
    add_gap(plan.arena_bytes);
  }
  return gaps_of_nodes;
}

}  // namespace rondo::ir
