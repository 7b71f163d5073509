#include "compiler/ops/op.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

namespace rondo::ir {
namespace {

// The rows by name, with open addressing. Verifier and passes look up each node many times, so the
// hash reads the last 16 characters alone, which differ for most names.
class OpTable {
 public:
  OpTable() : rows_(std::bit_ceil(4 * all_ops().size())) {
    for (const Op& row : all_ops()) rows_[slot(row.name)] = &row;
  }

  // Returns nullptr for an op without a row.
  const Op* find(std::string_view name) const { return rows_[slot(name)]; }

 private:
  // Returns the slot that has the name, or the free one for it.
  std::size_t slot(std::string_view name) const {
    std::size_t i = hash(name);
    while (rows_[i] != nullptr && rows_[i]->name != name) i = (i + 1) % rows_.size();
    return i;
  }
  std::size_t hash(std::string_view name) const {
    std::array<std::uint64_t, 2> end = {};
    if (name.size() >= sizeof end)
      std::memcpy(end.data(), name.data() + name.size() - sizeof end, sizeof end);
    else
      std::memcpy(end.data(), name.data(), name.size());
    // Odd constants with random bits; the highest bits of a product depend on all bits of a factor.
    const std::uint64_t mixed = (end[0] ^ name.size()) * 0x9e3779b97f4a7c15 + end[1] * 0xc2b2ae3d27d4eb4f;
    return mixed >> (64 - std::countr_zero(rows_.size()));
  }

  std::vector<const Op*> rows_;  // their number is a power of two
};

}  // namespace

const std::vector<Op>& all_ops() {
  static const auto* const ops = [] {
    auto* rows = new std::vector<Op>;
    for (const auto& family : {arithmetic_ops(), attention_ops(), collective_ops(), loss_ops(), norm_ops(),
                               optimizer_ops(), product_ops(), row_ops(), view_ops()})
      rows->insert(rows->end(), family.begin(), family.end());
    return rows;
  }();
  return *ops;
}

const Op& facts(std::string_view op) {
  static const auto* const table = new OpTable;
  static constexpr Op kUnknown;
  const Op* const row = table->find(op);
  return row == nullptr ? kUnknown : *row;
}

const Op& functional_facts(std::string_view op) {
  const std::size_t dot = op.rfind('.');
  if (dot == std::string_view::npos || dot == 0 || op[dot - 1] != '_') return facts(op);
  return facts(std::string(op.substr(0, dot - 1)).append(op.substr(dot)));
}

std::string in_place_name(const Op& op) { return std::string(op.name).insert(op.name.rfind('.'), 1, '_'); }

IdMap<NodeIndex> waits_of_starts(const Graph& graph) {
  IdMap<NodeIndex> starts(graph.values.size(), kNoNode);  // by pending result
  IdMap<NodeIndex> waits(graph.nodes.size(), kNoNode);
  for (NodeIndex i = 0; i < graph.node_count(); ++i) {
    const Effect effect = facts(graph.nodes[i].op).effect;
    if (runs_in_background(effect))
      for (const ValueId id : graph.nodes[i].results) starts[id] = i;
    if (effect != Effect::wait) continue;
    const ValueId awaited = std::get<Use>(graph.nodes[i].args[0]).value;
    if (starts[awaited] != kNoNode) waits[starts[awaited]] = i;
  }
  return waits;
}

IdMap<NodeIndex> last_needed(const Graph& graph, const IdMap<ValueId>& roots) {
  IdMap<NodeIndex> last(graph.values.size(), kNoNode);
  const IdMap<NodeIndex> waits = waits_of_starts(graph);
  for (NodeIndex i = 0; i < graph.node_count(); ++i) {
    const auto need = [&](ValueId id, NodeIndex until) {
      NodeIndex& node = last[roots[id]];
      node = std::max(node, until);
    };
    for (ValueId id : graph.nodes[i].results) need(id, i);
    for_each_operand(graph.nodes[i], [&](ValueId id) { need(id, std::max(i, waits[i])); });
  }
  return last;
}

double flops(const Graph& graph, const Node& node) {
  const Op& op = facts(node.op);
  return op.is_heavy() ? op.flops(graph, node) : 0;
}

}  // namespace rondo::ir
