#include "compiler/verify/op_rules.h"

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <variant>

#include "compiler/ir/op_facts.h"
#include "compiler/ir/verify_error.h"

namespace rondo::ir {
namespace {

// True where `argument` is none (-1).
template <class Type>
bool has_argument(const Node& node, int argument) {
  const auto place = static_cast<std::size_t>(argument);
  return argument < 0 || (place < node.args.size() && std::holds_alternative<Type>(node.args[place]));
}

template <class Type>
void require_argument(NodeIndex i, const Node& node, int argument, const char* what) {
  if (!has_argument<Type>(node, argument))
    throw VerifyError{i, fmt::format("its argument {} must be {}", argument, what)};
}

}  // namespace

void reused_memory_is_a_values(const Graph& graph) {
  for (NodeIndex i = 0; i < graph.node_count(); ++i) {
    const Node& node = graph.nodes[i];
    const int reuses = facts(node.op).reuses;
    if (!has_argument<Use>(node, reuses))
      throw VerifyError{i, fmt::format("has no value as argument {}", reuses)};
  }
}

void result_counts(const Graph& graph) {
  for (NodeIndex i = 0; i < graph.node_count(); ++i) {
    const Node& node = graph.nodes[i];
    const OpFacts& op = facts(node.op);
    const bool makes_something =
        runs_in_background(op.effect) || op.effect == Effect::wait || op.heavy || op.view != ViewKind::none;
    if (makes_something && node.results.empty()) throw VerifyError{i, "has no result"};
    if (op.effect == Effect::wait && node.results.size() != 1)
      throw VerifyError{i, fmt::format("has {} results, a wait has 1", node.results.size())};
    if (op.in_place.empty()) continue;
    std::size_t overwritable = 0;
    for (int arg = 0; arg < op.overwritten && arg < static_cast<int>(node.args.size()); ++arg) {
      const auto* list = std::get_if<UseList>(&node.args[arg]);
      overwritable += list != nullptr ? list->values.size() : 1;
    }
    if (node.results.size() != overwritable)
      throw VerifyError{i, fmt::format("has {} results for {} tensors", node.results.size(), overwritable)};
  }
}

void schemas_are_kept(const Graph& graph) {
  for (NodeIndex i = 0; i < graph.node_count(); ++i) {
    const Node& node = graph.nodes[i];
    const OpFacts& op = facts(node.op);
    if (!op.signature) continue;
    const Signature& expected = *op.signature;
    if (node.args.size() != expected.arguments || node.results.size() != expected.results)
      throw VerifyError{
          i, fmt::format("has {} arguments and {} results, and its schema {} and {}", node.args.size(),
                         node.results.size(), expected.arguments, expected.results)};
    for (std::size_t argument = 0; argument < expected.tensors; ++argument)
      require_argument<Use>(i, node, static_cast<int>(argument), "a tensor");
  }
}

void moves_are_described(const Graph& graph) {
  for (NodeIndex i = 0; i < graph.node_count(); ++i) {
    const Node& node = graph.nodes[i];
    const OpFacts& op = facts(node.op);
    if (runs_in_background(op.effect) || op.effect == Effect::wait || op.view != ViewKind::none)
      require_argument<Use>(i, node, 0, "a tensor");
    if (!op.collective) continue;
    require_argument<std::string>(i, node, op.collective->group, "the name of a group");
    require_argument<std::int64_t>(i, node, op.collective->ranks, "a number of ranks");
    require_argument<std::string>(i, node, op.collective->reduction, "the name of a reduction");
    constexpr std::int64_t kMostRanks = 1 << 24;
    const std::int64_t ranks = collective_of(node)->ranks;
    if (op.collective->ranks >= 0 && (ranks < 1 || ranks > kMostRanks))
      throw VerifyError{i, fmt::format("names {} ranks, and there are 1 to {}", ranks, kMostRanks)};
  }
}

}  // namespace rondo::ir
