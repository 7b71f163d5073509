// A graph that a mistake is put into: how to find a place in it, and what can go wrong there.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/ir/ir.h"

namespace rondo::ir {

// The `number`-th node, from 0 on, whose op begins with `op` and whose module and phase are those.
struct Place {
  std::string_view op;
  std::string module;
  std::optional<Phase> phase = std::nullopt;
  int number = 0;
};

// The wait for a collective; kNoNode where there is none.
NodeIndex wait_for(const Graph& graph, NodeIndex start);

class Patient {
 public:
  explicit Patient(const Graph& healthy) : graph(healthy) {}

  // Throws std::runtime_error where there is none.
  NodeIndex find(const Place& place) const;
  ValueId result(const Place& place) const { return graph.nodes[find(place)].results.at(0); }

  // Readers of `value` from node `from` on read `other`; views of it are of that.
  void replace(ValueId value, ValueId other, NodeIndex from);
  // A node in front of node `at`; its result.
  ValueId insert(NodeIndex at, std::string op, std::vector<Argument> args, const TensorType& type,
                 ValueId views = kNoValue);
  // A collective over a group, with its wait, in front of node `at`.
  ValueId insert_sum(NodeIndex at, ValueId of, const std::string& group);
  ValueId insert_gather(NodeIndex at, ValueId of, std::int64_t ranks, const std::string& group);

  // --- of the collective at `start` ---

  // What it brings is what the rank had: the summand of a sum, its own piece of one, copies
  // of its part, or what it sends.
  void leave_out(NodeIndex start);
  void name_group(NodeIndex start, const std::string& group);
  void name_reduction(NodeIndex start, const std::string& reduction);

  // --- of any node ---

  // What it makes is summed over a group: of a collective, what is waited for.
  void sum_again(NodeIndex node, const std::string& group);
  void scale(NodeIndex node, double factor);  // likewise
  // Readers of what it makes read its operand `argument`.
  void skip(NodeIndex node, std::size_t argument = 0);
  // Two of its results take each other's place.
  void swap_results(NodeIndex node, std::size_t a, std::size_t b);

  Graph graph;
};

}  // namespace rondo::ir
