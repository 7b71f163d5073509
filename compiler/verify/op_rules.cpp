// Each rule checks the positions that an op's row names (compiler/ops/op.h), since a graph may have
// been parsed from a file.
#include "compiler/verify/op_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "compiler/ir/verify_error.h"
#include "compiler/ops/op.h"

namespace rondo::ir {
namespace {

// A position of -1 requires nothing.
template <class Type>
void require_argument(NodeIndex i, const Node& node, int position, const char* what) {
  if (position >= 0 && argument<Type>(node, static_cast<std::size_t>(position)) == nullptr)
    throw VerifyError{i, fmt::format("its argument {} must be {}", position, what)};
}

}  // namespace

void reused_memory_is_a_values(const Graph& graph) {
  for (NodeIndex i = 0; i < graph.node_count(); ++i)
    require_argument<Use>(i, graph.nodes[i], facts(graph.nodes[i].op).reuses, "a tensor");
}

void result_counts(const Graph& graph) {
  for (NodeIndex i = 0; i < graph.node_count(); ++i) {
    const Node& node = graph.nodes[i];
    const Op& op = facts(node.op);
    const bool has_result = runs_in_background(op.effect) || op.effect == Effect::wait || op.is_heavy() ||
                            op.view != ViewKind::none;
    if (has_result && node.results.empty()) throw VerifyError{i, "has no result"};
    if (op.effect == Effect::wait && node.results.size() != 1)
      throw VerifyError{i, fmt::format("has {} results; a wait has 1", node.results.size())};
    if (op.overwritten == 0) continue;
    std::size_t tensors = 0;
    const auto count = [&](int arg) {
      const auto* list = argument<UseList>(node, static_cast<std::size_t>(arg));
      tensors += list != nullptr ? list->values.size() : 1;
    };
    for (int arg = 0; arg < op.overwritten && arg < std::ssize(node.args); ++arg) count(arg);
    if (op.makes_for >= 0) count(op.makes_for);
    if (node.results.size() != tensors)
      throw VerifyError{i, fmt::format("has {} results for {} tensors", node.results.size(), tensors)};
  }
}

void schemas_are_kept(const Graph& graph) {
  for (NodeIndex i = 0; i < graph.node_count(); ++i) {
    const Node& node = graph.nodes[i];
    const Op& op = facts(node.op);
    const Signature& expected = op.signature;
    if (expected.arguments == 0) continue;
    if (node.args.size() != expected.arguments || node.results.size() != expected.results)
      throw VerifyError{
          i, fmt::format("has {} arguments and {} results, but its schema has {} and {}", node.args.size(),
                         node.results.size(), expected.arguments, expected.results)};
    for (std::size_t argument = 0; argument < expected.tensors; ++argument)
      require_argument<Use>(i, node, static_cast<int>(argument), "a tensor");
  }
}

void moves_are_described(const Graph& graph) {
  for (NodeIndex i = 0; i < graph.node_count(); ++i) {
    const Node& node = graph.nodes[i];
    const Op& op = facts(node.op);
    if (runs_in_background(op.effect) || op.effect == Effect::wait || op.view != ViewKind::none)
      require_argument<Use>(i, node, 0, "a tensor");
    if (!op.collective) continue;
    require_argument<std::string>(i, node, op.collective->group, "the name of a group");
    require_argument<std::int64_t>(i, node, op.collective->ranks, "a number of ranks");
    require_argument<std::string>(i, node, op.collective->reduction, "the name of a reduction");
    constexpr std::int64_t kMaxRanks = 1 << 24;
    const std::int64_t ranks = collective_of(node)->ranks;
    if (op.collective->ranks >= 0 && (ranks < 1 || ranks > kMaxRanks))
      throw VerifyError{i, fmt::format("names {} ranks; expected 1 to {}", ranks, kMaxRanks)};
  }
}

}  // namespace rondo::ir
