// A graph for tests of the verifier, with functions that find a node and make a mistake there.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/ir/ir.h"

namespace rondo::ir {

// The `number`-th node, from 0, with this module and phase whose op begins with `op`.
struct Place {
  std::string_view op;
  std::string module;
  std::optional<Phase> phase = std::nullopt;
  int number = 0;
};

// Returns the wait for a collective, or kNoNode.
NodeIndex wait_for(const Graph& graph, NodeIndex start);

class Patient {
 public:
  explicit Patient(const Graph& healthy) : graph(healthy) {}

  // Throws std::runtime_error if there is no such node.
  NodeIndex find(const Place& place) const;
  ValueId result(const Place& place) const { return graph.nodes[find(place)].results.at(0); }

  // Makes readers of `value` from node `from` on read `other`, and views of `value` view it.
  void replace(ValueId value, ValueId other, NodeIndex from);
  // Inserts a node before node `at`. Returns its result.
  ValueId insert(NodeIndex at, std::string op, std::vector<Argument> args, const TensorType& type,
                 ValueId views = kNoValue);
  // Inserts a collective over a group, with its wait, before node `at`. Returns the result of the
  // wait.
  ValueId insert_sum(NodeIndex at, ValueId of, const std::string& group);
  ValueId insert_gather(NodeIndex at, ValueId of, std::int64_t ranks, const std::string& group);

  // --- mistakes at the collective `start` ---

  // Replaces the result by values of the rank: its summand, its piece of that, copies of its part,
  // or the rows that it sends.
  void leave_out(NodeIndex start);
  void name_group(NodeIndex start, const std::string& group);
  void name_reduction(NodeIndex start, const std::string& reduction);

  // --- mistakes at any node ---

  // Sums or scales the result of a node, or of the wait for a collective.
  void sum_again(NodeIndex node, const std::string& group);
  void scale(NodeIndex node, double factor);
  // Makes readers of the result read operand `argument`.
  void skip(NodeIndex node, std::size_t argument = 0);
  // Swaps two results.
  void swap_results(NodeIndex node, std::size_t a, std::size_t b);

  Graph graph;
};

}  // namespace rondo::ir
