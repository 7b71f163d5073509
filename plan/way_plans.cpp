// The peak of memory is the maximum of several lines, one for each place that may be the peak. So
// the line through two of its points is at worst too low, and a way that fits by its estimate is
// planned whole before it is advised.
#include "plan/way_plans.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "config/derived/compile_options.h"
#include "support/error.h"

namespace rondo {
namespace {

// Layers of the two plans beyond the minimum of the rules: enough for all overlap between layers
// to occur.
constexpr std::int64_t kFewLayers = 4, kMoreLayers = 6;

// Returns the way without the settings that only passes read.
Variant without_passes(Variant way) {
  way = with_policy(std::move(way), MemoryPolicy::full);
  way.config.activation_checkpoint = {};
  way.config.parallelism.fsdp_reshard_after_forward = {};
  return way;
}

}  // namespace

WayPlans::WayPlans(const SearchedJob& searched, const JobPlan& plan, std::int64_t limit)
    : searched_(searched), limit_(limit) {
  keep(searched.job, plan);
}

bool WayEstimate::is_better_than(const WayEstimate& other) const {
  constexpr double kSame = 1.001;
  if (is_possible != other.is_possible) return is_possible;
  if (fits() != other.fits()) return fits();
  return fits() ? tokens_per_s > kSame * other.tokens_per_s : kSame * bytes < other.bytes;
}

std::string WayPlans::key(const Variant& way) const {
  return fmt::format("{}", fmt::join(flags_between(searched_.job, way), " "));
}

WayEstimate WayPlans::estimate(const Variant& way) {
  const std::string flags = key(way);
  if (const auto match = known_.find(flags); match != known_.end()) return match->second;
  if (is_over()) return {};
  // Stages of a pipeline have few layers each, and each kind is planned once.
  if (way.config.parallelism.has_pipeline() ||
      layer_count(way.config) <= fewest_layers(way.config) + kMoreLayers)
    return whole(way);
  ++estimated_;
  WayEstimate& estimate = known_[flags];
  try {
    estimate = from_few_layers(way);
  } catch (const Error&) {
    ++impossible_;
  }
  return estimate;
}

WayEstimate WayPlans::whole(const Variant& way) {
  const std::string flags = key(way);
  if (const auto match = known_.find(flags); match != known_.end() && match->second.is_whole)
    return match->second;
  if (is_over()) return {};
  ++planned_;
  WayEstimate& estimate = known_[flags] = {};
  estimate.is_whole = true;
  try {
    keep(way, plan(way));
  } catch (const Error&) {
    ++impossible_;
  }
  return estimate;
}

void WayPlans::keep(const Variant& way, const JobPlan& p) {
  known_[key(way)] = {true,
                      true,
                      p.usable_bytes,
                      static_cast<double>(p.memory.total_bytes()),
                      p.tokens_per_s(),
                      p.step_s(),
                      p.tokens_per_step,
                      p.layout.microbatches};
  suggest(way, p);
}

void WayPlans::suggest(const Variant& way, const JobPlan& plan) {
  if (!plan.pipeline) return;
  std::vector<Variant>& ways = suggestions_[key(way)];
  const PipelinePlan& pipeline = *plan.pipeline;
  if (!plan.fits() && pipeline.most_pending() > 0)
    ways.push_back(with_pending(way, pipeline.limit_within(plan.usable_bytes)));
  const std::string even = pipeline.even_layout();
  if (!even.empty() && even != print_layout(pipeline.layers())) ways.push_back(with_layout(way, even));
}

std::vector<Variant> WayPlans::suggestions(const Variant& way) const {
  const auto match = suggestions_.find(key(way));
  return match == suggestions_.end() ? std::vector<Variant>() : match->second;
}

WayEstimate WayPlans::from_few_layers(const Variant& way) {
  const std::int64_t fewest = fewest_layers(way.config);
  const JobPlan few = plan(with_layers(way, fewest + kFewLayers));
  const JobPlan more = plan(with_layers(way, fewest + kMoreLayers));
  const auto layers = static_cast<double>(layer_count(way.config) - fewest - kFewLayers);
  const auto at_all_layers = [&](double with_few, double with_more) {
    return with_few + (with_more - with_few) * layers / static_cast<double>(kMoreLayers - kFewLayers);
  };
  WayEstimate estimate;
  estimate.is_possible = true;
  estimate.usable_bytes = few.usable_bytes;
  estimate.bytes = at_all_layers(static_cast<double>(few.memory.total_bytes()),
                                 static_cast<double>(more.memory.total_bytes()));
  estimate.step_s = at_all_layers(few.step_s(), more.step_s());
  estimate.tokens_per_step = few.tokens_per_step;
  estimate.microbatches = few.layout.microbatches;
  estimate.tokens_per_s = static_cast<double>(few.tokens_per_step) / estimate.step_s;
  return estimate;
}

JobPlan WayPlans::plan(const Variant& way) {
  const std::string others = key(without_passes(with_layers(way, layer_count(searched_.job.config))));
  if (others != traced_) traces_.clear();
  traced_ = others;
  std::shared_ptr<TracedGraphs>& traces = traces_[layer_count(way.config)];
  if (traces == nullptr) traces = std::make_shared<TracedGraphs>();
  return plan_job(way.config, way.world, std::nullopt, *searched_.device, {}, traces);
}

}  // namespace rondo
