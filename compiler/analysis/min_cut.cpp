// Splits each node into an entry and an exit, so that a cut of nodes is a cut of edges, and
// computes the maximum flow by Dinic's algorithm.
#include "compiler/analysis/min_cut.h"

#include <algorithm>
#include <limits>
#include <queue>

namespace rondo::ir {
namespace {

constexpr std::int64_t kEndless = std::numeric_limits<std::int64_t>::max() / 4;

}  // namespace

MinCut::MinCut(std::size_t count) : source_(2 * count), sink_(2 * count + 1), edges_(2 * count + 2) {}

void MinCut::add(std::size_t from, std::size_t to, std::int64_t capacity) {
  edges_[from].push_back({to, capacity, edges_[to].size()});
  edges_[to].push_back({from, 0, edges_[from].size() - 1});
}

void MinCut::set_capacity(std::size_t node, std::int64_t capacity) { add(entry(node), exit(node), capacity); }
void MinCut::connect(std::size_t from, std::size_t to) { add(exit(from), entry(to), kEndless); }
void MinCut::source(std::size_t node) { add(source_, entry(node), kEndless); }
void MinCut::sink(std::size_t node) { add(exit(node), sink_, kEndless); }

bool MinCut::find_levels() {
  level_.assign(edges_.size(), -1);
  level_[source_] = 0;
  std::queue<std::size_t> open({source_});
  while (!open.empty()) {
    const std::size_t at = open.front();
    open.pop();
    for (const Edge& edge : edges_[at]) {
      if (edge.capacity == 0 || level_[edge.to] >= 0) continue;
      level_[edge.to] = level_[at] + 1;
      open.push(edge.to);
    }
  }
  return level_[sink_] >= 0;
}

std::int64_t MinCut::push(std::size_t at, std::int64_t flow) {
  if (at == sink_) return flow;
  for (; next_[at] < edges_[at].size(); ++next_[at]) {
    Edge& edge = edges_[at][next_[at]];
    if (edge.capacity == 0 || level_[edge.to] != level_[at] + 1) continue;
    const std::int64_t pushed = push(edge.to, std::min(flow, edge.capacity));
    if (pushed == 0) continue;
    edge.capacity -= pushed;
    edges_[edge.to][edge.back].capacity += pushed;
    return pushed;
  }
  return 0;
}

std::vector<bool> MinCut::behind_cut() {
  while (find_levels()) {
    next_.assign(edges_.size(), 0);
    while (push(source_, kEndless) > 0) {
    }
  }
  // Walks backwards over residual capacity: the edge at -> to has capacity left if its reverse
  // says so.
  std::vector<bool> reaches(edges_.size(), false);
  reaches[sink_] = true;
  std::queue<std::size_t> open({sink_});
  while (!open.empty()) {
    const std::size_t to = open.front();
    open.pop();
    for (const Edge& reverse : edges_[to]) {
      if (reaches[reverse.to] || edges_[reverse.to][reverse.back].capacity == 0) continue;
      reaches[reverse.to] = true;
      open.push(reverse.to);
    }
  }
  std::vector<bool> result;
  for (std::size_t node = 0; 2 * node + 2 < edges_.size(); ++node) result.push_back(reaches[entry(node)]);
  return result;
}

}  // namespace rondo::ir
