// Greedy rule for a knapsack: the class with the most seconds per byte goes first. Saving one value
// changes which others must be recomputed, so each choice renews the recompute plan and the worth
// of every class. If a class does not fit completely, bisection finds the number of last blocks in
// which it fits. Each class is tried once, which bounds the loop.
#include "compiler/analysis/memory_budget.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "compiler/plan/cost_model.h"
#include "support/error.h"

namespace rondo::ir {
namespace {

constexpr double kGib = 1024.0 * 1024.0 * 1024.0;

// Optional nodes at the same position of each block, in the order of the blocks.
using NodeClass = std::vector<NodeIndex>;

std::vector<NodeClass> node_classes(const Graph& graph, const ForwardValues& forward) {
  std::vector<NodeClass> classes;
  std::unordered_map<std::string, std::size_t> index;
  const auto blocks = static_cast<std::int32_t>(graph.blocks.size());
  for (std::int32_t block = 0; block < blocks; ++block) {
    std::unordered_map<std::string, int> ordinals;
    for (NodeIndex i : forward.producers_of(block)) {
      if (!forward.is_optional(i)) continue;
      const Node& node = graph.nodes[i];
      std::string key = node.op + " " + node.module.substr(graph.blocks[block].size());
      key += fmt::format(" {}", ordinals[key]++);
      const auto [place, is_new] = index.emplace(std::move(key), classes.size());
      if (is_new) classes.emplace_back();
      classes[place->second].push_back(i);
    }
  }
  return classes;
}

class Filler {
 public:
  Filler(const Graph& graph, const ForwardValues& forward, TargetDevice device)
      : graph_(graph),
        forward_(forward),
        planner_(graph),
        classes_(node_classes(graph, forward)),
        keep_(graph.nodes.size(), false) {
    const DeviceModel& model = device_model_for(device);
    for (const Node& node : graph.nodes) seconds_.push_back(node_seconds(graph, node, model));
    update();
  }

  std::int64_t saved_bytes() const { return plan_.saved_bytes; }
  std::int64_t bytes_of_none() const {
    return planner_.plan(forward_.recompute_all_but(IdMap<bool>(graph_.nodes.size(), true))).saved_bytes;
  }

  IdMap<bool> fill(std::int64_t limit) {
    std::vector<bool> closed(classes_.size(), false);
    while (true) {
      std::size_t best = classes_.size();
      double best_worth = 0;
      for (std::size_t c = 0; c < classes_.size(); ++c) {
        if (closed[c]) continue;
        const double worth = seconds_per_byte(classes_[c]);
        if (worth > best_worth) best = c, best_worth = worth;
      }
      if (best == classes_.size()) return forward_.recompute_all_but(keep_);
      closed[best] = true;
      take(classes_[best], limit);
    }
  }

 private:
  void update() { plan_ = planner_.plan(forward_.recompute_all_but(keep_)); }

  // Returns 0 where saving the class saves no time.
  double seconds_per_byte(const NodeClass& nodes) const {
    double seconds = 0, bytes = 1;
    for (std::size_t i : nodes) {
      if (!plan_.again[i]) continue;
      seconds += seconds_[i];
      bytes += static_cast<double>(forward_.bytes(i));
    }
    return seconds / bytes;
  }

  // Saves the class in as many of the last blocks as fit.
  void take(const NodeClass& nodes, std::int64_t limit) {
    std::size_t fits = 0, fails = nodes.size() + 1;
    for (std::size_t count = nodes.size(); fits + 1 < fails; count = (fits + fails) / 2) {
      mark(nodes, count);
      (plan_.saved_bytes <= limit ? fits : fails) = count;
    }
    mark(nodes, fits);
  }
  void mark(const NodeClass& nodes, std::size_t count) {
    for (std::size_t k = 0; k < nodes.size(); ++k) keep_[nodes[k]] = k + count >= nodes.size();
    update();
  }

  const Graph& graph_;
  const ForwardValues& forward_;
  const RecomputePlanner planner_;
  const std::vector<NodeClass> classes_;
  IdMap<double> seconds_;
  IdMap<bool> keep_;
  RecomputePlan plan_;
};

}  // namespace

MemoryDecision fill_budget(const Graph& graph, const ForwardValues& forward, const CompileOptions& options) {
  Filler filler(graph, forward, options.device);
  const std::int64_t least = filler.saved_bytes();
  std::int64_t limit = static_cast<std::int64_t>(options.memory_budget_gib * kGib);
  if (limit == 0) {
    const std::int64_t most = std::max(filler.bytes_of_none(), least);  // blocks may save nothing
    limit = least + static_cast<std::int64_t>(options.memory_budget * static_cast<double>(most - least));
  }
  if (limit < least)
    throw Error(
        ExitCode::config,
        fmt::format("compile.memory_budget_gib = {:.4g} must be at least {:.4g}, the bytes of {} that "
                    "are always saved; use a smaller batch or a shorter sequence",
                    options.memory_budget_gib, static_cast<double>(least) / kGib, graph.name));
  MemoryDecision decision{filler.fill(limit), {}};
  decision.notes.push_back(fmt::format("budget: {:.1f} MiB of saved activations allowed, {:.1f} MiB saved",
                                       static_cast<double>(limit) / (1 << 20),
                                       static_cast<double>(filler.saved_bytes()) / (1 << 20)));
  return decision;
}

}  // namespace rondo::ir
