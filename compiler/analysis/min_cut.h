// Minimum cut of a small directed graph with capacities on nodes. (Dinic's algorithm; Even and
// Tarjan, "Network Flow and Testing Graph Connectivity", 1975.)
#pragma once

#include <cstdint>
#include <vector>

namespace rondo::ir {

class MinCut {
 public:
  // Nodes are 0 ... count-1.
  explicit MinCut(std::size_t count);
  void set_capacity(std::size_t node, std::int64_t capacity);  // initially 0
  void connect(std::size_t from, std::size_t to);              // an edge that is never cut
  void source(std::size_t node);                               // flow begins here
  void sink(std::size_t node);                                 // flow ends here

  // Returns for each node whether it is behind the cheapest set of nodes that separates sources
  // from sinks: a sink depends on it, and no source reaches it. Among several cheapest sets it
  // takes the one nearest to the sinks. Call once.
  std::vector<bool> behind_cut();

 private:
  struct Edge {
    std::size_t to;
    std::int64_t capacity;
    std::size_t back;  // index of the reverse edge in edges_[to]
  };
  static std::size_t entry(std::size_t node) { return 2 * node; }
  static std::size_t exit(std::size_t node) { return 2 * node + 1; }
  void add(std::size_t from, std::size_t to, std::int64_t capacity);
  bool find_levels();
  std::int64_t push(std::size_t at, std::int64_t flow);

  std::size_t source_, sink_;
  std::vector<std::vector<Edge>> edges_;
  std::vector<std::int32_t> level_;
  std::vector<std::size_t> next_;
};

}  // namespace rondo::ir
