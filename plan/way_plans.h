// Plans of the ways that a search compares. A plan of a large model takes a second, and a search
// has hundreds of ways. Layers are equal, so memory and time are linear in their number: plans of
// two models with a few layers give a line. Ways that differ only in passes share traces.
// Single-threaded.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "plan/moves.h"
#include "plan/plan.h"

namespace rondo {

struct WayEstimate {
  bool is_possible = false;  // it can be planned
  bool is_whole = false;     // of all layers
  std::int64_t usable_bytes = 0;
  double bytes = 0;         // of a rank
  double tokens_per_s = 0;  // over all ranks
  double step_s = 0;
  std::int64_t tokens_per_step = 0, microbatches = 1;

  bool fits() const { return is_possible && bytes <= static_cast<double>(usable_bytes); }
  // Returns whether a search prefers it: one that fits, then the faster one. Of ways that do not
  // fit, the one that takes less memory. Differences below 0.1 % do not count.
  bool is_better_than(const WayEstimate& other) const;
};

class WayPlans {
 public:
  // `plan` is of the job, which counts as planned.
  WayPlans(const SearchedJob& searched, const JobPlan& plan, std::int64_t limit);

  // Estimates from a few layers, or whole if there are few. Returns the known result for a way that
  // was planned before. At the limit, a new way is impossible.
  WayEstimate estimate(const Variant& way);
  // Plans the way whole, if it is not yet.
  WayEstimate whole(const Variant& way);
  // Returns other ways that the whole plan of a pipeline suggests: stages that take equally long,
  // and a limit of pending microbatches if it does not fit.
  std::vector<Variant> suggestions(const Variant& way) const;

  bool is_over() const { return used() >= limit_; }
  std::int64_t used() const { return estimated_ + planned_; }
  std::int64_t estimated() const { return estimated_; }
  std::int64_t planned() const { return planned_; }
  std::int64_t impossible() const { return impossible_; }

 private:
  std::string key(const Variant& way) const;
  JobPlan plan(const Variant& way);
  WayEstimate from_few_layers(const Variant& way);
  void keep(const Variant& way, const JobPlan& plan);
  void suggest(const Variant& way, const JobPlan& plan);

  const SearchedJob& searched_;
  const std::int64_t limit_;
  std::map<std::string, WayEstimate> known_;  // by flags
  std::map<std::string, std::vector<Variant>> suggestions_;
  // Traces of the last way with other settings than those of passes, by number of layers.
  std::string traced_;
  std::map<std::int64_t, std::shared_ptr<TracedGraphs>> traces_;
  std::int64_t estimated_ = 0, planned_ = 0, impossible_ = 0;
};

}  // namespace rondo
