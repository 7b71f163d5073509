// Buckets by size and overlap instead of by block.
//
// Walks the gathers (or reductions) of a phase in their order. The next one joins the bucket if
// both are so small that starting them costs more than moving them. It also joins if the grown
// bucket is still hidden by the compute between the start of the previous bucket and its own. A
// bucket never exceeds kLargest. Times are the roofline and the ring of compiler/plan/cost_model.h,
// so that all ranks make the same decisions.
#include <fmt/format.h>

#include <map>

#include "compiler/analysis/bucketing.h"
#include "compiler/ir/storages.h"
#include "compiler/passes/passes.h"
#include "compiler/plan/cost_model.h"

namespace rondo::ir {
namespace {

constexpr std::int64_t kLargest = std::int64_t{1} << 30;  // gathered bytes

class Grouping {
 public:
  Grouping(const Graph& graph, const DeviceModel& device) : device_(device) {
    compute_until_.push_back(0);
    for (const Node& node : graph.nodes)
      compute_until_.push_back(compute_until_.back() + node_seconds(graph, node, device));
  }

  // Names a bucket for each collective of one kind, phase, group and dtype, in the order of
  // their starts.
  void name(const std::vector<const FsdpCollective*>& run,
            std::map<const FsdpCollective*, std::string>& names) {
    std::int64_t bytes = 0;
    std::int32_t begin = 0;
    double hidden_by = 0;  // compute between the starts of the previous bucket and this one
    int number = -1;
    for (const FsdpCollective* next : run) {
      if (number < 0 || !joins(*next, bytes, hidden_by)) {
        hidden_by = number < 0 ? 0 : compute_between(begin, next->start);
        begin = next->start;
        bytes = 0;
        ++number;
      }
      bytes += next->bytes;
      names[next] = fmt::format("auto.{}.{}", next->group, number);
    }
  }

 private:
  bool joins(const FsdpCollective& next, std::int64_t bytes, double hidden_by) const {
    if (bytes + next.bytes > kLargest) return false;
    const double fixed = collective_seconds(next.kind, 0, next.ranks, device_);
    const auto seconds = [&](std::int64_t moved) {
      return collective_seconds(next.kind, static_cast<double>(moved), next.ranks, device_);
    };
    const bool both_small = seconds(bytes) < 2 * fixed && seconds(next.bytes) < 2 * fixed;
    return both_small || seconds(bytes + next.bytes) <= hidden_by;
  }
  double compute_between(std::int32_t from, std::int32_t to) const {
    return compute_until_[to] - compute_until_[from];
  }

  const DeviceModel& device_;
  IdMap<double> compute_until_;  // seconds before each node
};

}  // namespace

Notes auto_bucketing(Graph& graph, const CompileOptions& options) {
  if (overwrites(graph)) return left_alone();
  const std::vector<FsdpCollective> collectives = fsdp_collectives(graph);
  if (collectives.empty()) return {};
  std::map<std::string, std::vector<const FsdpCollective*>> runs;
  for (const FsdpCollective& collective : collectives)
    runs[fmt::format("{} {} {} {}", phase_name(collective.phase), collective_name(collective.kind),
                     collective.group, dtype_name(collective.dtype))]
        .push_back(&collective);
  Grouping grouping(graph, device_model_for(options.device));
  std::map<const FsdpCollective*, std::string> names;
  for (const auto& [kind, run] : runs) grouping.name(run, names);
  std::vector<std::string> buckets;
  for (const FsdpCollective& collective : collectives) buckets.push_back(names.at(&collective));
  return bucket_collectives(graph, collectives, buckets, "auto_bucketing");
}

}  // namespace rondo::ir
