// A whole plan of a large model takes most of a second, and there are hundreds of ways. Layers are
// equal, so memory and time are linear in their number: two plans of a few layers give a line. The
// peak is the maximum of several such lines, one for each place that may be the peak, so the line
// through the first of them is at worst too low. A way whose line does not fit is dropped, with
// every way that takes no less. The rest is planned whole, fastest first. Ways that differ only in
// passes share a trace.
#include "plan/remedies.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "config/derived/compile_options.h"
#include "plan/variants.h"
#include "support/error.h"
#include "support/stopwatch.h"

namespace rondo {
namespace {

// Layers of the two plans beyond the minimum of the rules: enough for all overlap between layers
// to occur.
constexpr std::int64_t kFewLayers = 4, kMoreLayers = 6;
constexpr double kSlack = 1.03;  // an estimate may be too high by this factor
constexpr std::int64_t kMostTimesTheRanks = 64;

struct Estimate {
  double bytes = 0;
  double tokens_per_s = 0;
};

// Ways that differ only in the sequences of a rank. `at` is the largest one not known to be
// too much.
struct Candidate {
  std::vector<Variant> batches;
  std::size_t at = 0;
  Estimate estimate;

  const Variant& variant() const { return batches[at]; }
};

// A way that is known not to fit. `policy` and `loss` are indices into the lists of variants.h.
struct TooMuch {
  std::size_t policy, loss;
  std::int64_t local;
  bool accumulates;

  // Returns whether `other`, of the same layout, takes at least as much memory.
  bool bounds(const TooMuch& other) const {
    const bool keeps_at_least_this =
        policy == other.policy || (policy < other.policy && other.policy < kOrderedPolicies);
    return keeps_at_least_this && loss <= other.loss && local <= other.local &&
           accumulates <= other.accumulates;
  }
};

Remedy remedy_of(const Variant& job, const Variant& variant, const JobPlan& plan) {
  return {flags_between(job, variant), variant.world,      plan.memory.total_bytes(), plan.tokens_per_step,
          plan.layout.microbatches,    plan.tokens_per_s()};
}

bool is_faster(const Remedy& a, const Remedy& b) { return a.tokens_per_s > b.tokens_per_s; }

class Search {
 public:
  Search(const Variant& job, const JobPlan& plan, const SearchLimits& limits)
      : job_(job), plan_(plan), limits_(limits) {
    const auto state = [&](ir::InputKind kind) {
      return plan.memory.input_bytes[static_cast<std::size_t>(kind)] * shards(plan.layout);
    };
    state_bytes_ = state(ir::InputKind::parameter) + state(ir::InputKind::optimizer);
    const std::int64_t usable = std::max<std::int64_t>(1, plan.usable_bytes);
    result_.least_ranks_for_state = (state_bytes_ + usable - 1) / usable;
  }

  Remedies run() {
    // Multiplies the ranks by 1, 1.5, 2, 3, 4, 6, ...
    for (std::int64_t halves = 2; halves <= 2 * kMostTimesTheRanks && result_.found.empty();
         halves += halves % 3 == 0 ? halves / 3 : halves / 2) {
      if (halves > 2 && left_s() < limits_.seconds / 16) break;
      if (job_.world * halves % 2 != 0) continue;
      result_.most_ranks = job_.world * halves / 2;
      search(result_.most_ranks, plan_.layout.global_batch_size);
      if (result_.found.empty() && job_.config.training.global_batch_size == -1)
        search(result_.most_ranks, 0);
    }
    std::sort(result_.found.begin(), result_.found.end(), is_faster);
    result_.seconds = watch_.seconds();
    return result_;
  }

 private:
  static std::int64_t shards(const Layout& layout) {
    return layout.mesh.world_size() / layout.mesh.degree(Axis::dp_replicate);
  }

  double left_s() const { return limits_.seconds - watch_.seconds(); }
  bool is_over() const { return watch_.seconds() >= stage_ends_s_; }

  // `sequences` as in local_batches.
  void search(std::int64_t world, std::int64_t sequences) {
    stage_ends_s_ = watch_.seconds() + std::max(0.0, left_s()) / 2;  // the rest is for later
    std::vector<Candidate> candidates;
    for (const Variant& layout : layouts(job_, world, plan_.device->ranks_per_node)) {
      add_candidates(layout, sequences, candidates);
      if (layout.config.parallelism.fsdp_gradient_sync == GradientSync::step)
        add_candidates(with_other_gradient_sync(layout), sequences, candidates);
    }
    plan_fastest(std::move(candidates));
  }

  void add_candidates(const Variant& layout, std::int64_t sequences, std::vector<Candidate>& candidates) {
    const std::vector<Variant> batches = local_batches(layout, sequences);
    if (batches.empty()) return;
    const Layout resolved = resolve_layout(batches[0].config, layout.world);
    if (state_bytes_ / shards(resolved) > plan_.usable_bytes) return;
    traces_.clear();
    std::vector<TooMuch> too_much;
    const std::vector<Variant> of_loss = losses(layout);
    for (std::size_t loss = 0; loss < of_loss.size(); ++loss) {
      const std::vector<Variant> of_policy = memory_policies(of_loss[loss]);
      for (std::size_t policy = 0; policy < of_policy.size(); ++policy) {
        if (is_over()) {
          ++result_.not_searched;
          continue;
        }
        Candidate candidate{local_batches(of_policy[policy], sequences), 0, {}};
        const auto fits_at = [&](std::size_t at) {
          candidate.at = at;
          const TooMuch way = {policy, loss, candidate.variant().config.training.local_batch_size,
                               at > 0 && sequences > 0};
          if (std::any_of(too_much.begin(), too_much.end(),
                          [&](const TooMuch& known) { return known.bounds(way); }))
            return false;
          if (fits(candidate)) return true;
          too_much.push_back(way);
          return false;
        };
        // The smallest batch first: if it is too much, little remains to search.
        const std::size_t count = candidate.batches.size();
        if (count > 2) fits_at(count - 1);
        std::size_t at = 0;
        while (at < count && !fits_at(at)) ++at;
        if (at < count) candidates.push_back(std::move(candidate));
      }
    }
  }

  // Estimates the candidate and returns whether the estimate fits.
  bool fits(Candidate& candidate) {
    candidate.estimate = estimate(candidate.variant());
    return candidate.estimate.bytes <= kSlack * static_cast<double>(plan_.usable_bytes);
  }

  Estimate estimate(const Variant& variant) {
    ++result_.estimated;
    const auto layers = static_cast<double>(layer_count(variant.config));
    const std::int64_t fewest = fewest_layers(variant.config);
    // Stages of a pipeline have few layers each, and each kind is planned once.
    if (variant.config.parallelism.has_pipeline() || layer_count(variant.config) <= fewest + kMoreLayers) {
      const JobPlan whole = plan_shared(variant);
      return {static_cast<double>(whole.memory.total_bytes()), whole.tokens_per_s()};
    }
    const JobPlan few = plan_shared(with_layers(variant, fewest + kFewLayers));
    const JobPlan more = plan_shared(with_layers(variant, fewest + kMoreLayers));
    const auto at_all_layers = [&](double with_few, double with_more) {
      return with_few + (with_more - with_few) * (layers - static_cast<double>(fewest + kFewLayers)) /
                            static_cast<double>(kMoreLayers - kFewLayers);
    };
    return {at_all_layers(static_cast<double>(few.memory.total_bytes()),
                          static_cast<double>(more.memory.total_bytes())),
            static_cast<double>(few.tokens_per_step) / at_all_layers(few.step_s(), more.step_s())};
  }

  // Plans with the traces of this layout. Only the batches, the layers and the loss change a trace.
  JobPlan plan_shared(const Variant& variant) {
    const Training& training = variant.config.training;
    std::shared_ptr<TracedGraphs>& traces =
        traces_[{training.local_batch_size, training.global_batch_size, layer_count(variant.config),
                 loss_chunks(variant.config).value_or(-1)}];
    if (traces == nullptr) traces = std::make_shared<TracedGraphs>();
    return plan_job(variant.config, variant.world, std::nullopt, *plan_.device, {}, traces);
  }

  void plan_fastest(std::vector<Candidate> candidates) {
    traces_.clear();
    const auto slower = [](const Candidate& a, const Candidate& b) {
      return a.estimate.tokens_per_s < b.estimate.tokens_per_s;
    };
    std::make_heap(candidates.begin(), candidates.end(), slower);
    while (!candidates.empty() && result_.found.size() < limits_.remedies) {
      if (is_over()) {
        result_.not_searched += static_cast<std::int64_t>(candidates.size());
        return;
      }
      std::pop_heap(candidates.begin(), candidates.end(), slower);
      Candidate next = std::move(candidates.back());
      candidates.pop_back();
      if (changes_more_than_a_remedy(next.variant())) continue;
      ++result_.planned;
      const Variant& variant = next.variant();
      const JobPlan plan = plan_job(variant.config, variant.world, std::nullopt, *plan_.device);
      if (plan.fits()) {
        result_.found.push_back(remedy_of(job_, variant, plan));
        keys_.push_back(keys(result_.found.back().flags));
        continue;
      }
      traces_.clear();  // they are of another layout
      while (++next.at < next.batches.size() && !fits(next)) continue;
      if (next.at == next.batches.size()) continue;
      candidates.push_back(std::move(next));
      std::push_heap(candidates.begin(), candidates.end(), slower);
    }
  }

  // Returns the sorted names of flags, without values.
  static std::vector<std::string> keys(std::vector<std::string> flags) {
    for (std::string& flag : flags) flag.resize(std::min(flag.size(), flag.find('=')));
    std::sort(flags.begin(), flags.end());
    return flags;
  }

  bool changes_more_than_a_remedy(const Variant& variant) const {
    const std::vector<std::string> own = keys(flags_between(job_, variant));
    return std::any_of(keys_.begin(), keys_.end(), [&](const std::vector<std::string>& faster) {
      return std::includes(own.begin(), own.end(), faster.begin(), faster.end());
    });
  }

  const Variant& job_;
  const JobPlan& plan_;
  const SearchLimits limits_;
  const Stopwatch watch_;
  double stage_ends_s_ = 0;
  std::int64_t state_bytes_ = 0;  // of all ranks that share one replica
  // By local batch, global batch, layers and chunks of the loss.
  std::map<std::array<std::int64_t, 4>, std::shared_ptr<TracedGraphs>> traces_;
  std::vector<std::vector<std::string>> keys_;  // of the remedies so far
  Remedies result_;
};

}  // namespace

Remedies find_remedies(const Variant& job, const JobPlan& plan, const SearchLimits& limits) {
  return Search(job, plan, limits).run();
}

Remedies find_faster(const Variant& job, const JobPlan& plan, const SearchLimits& limits) {
  const Stopwatch watch;
  Remedies result;
  result.most_ranks = job.world;
  Variant fastest = job;
  double tokens_per_s = plan.tokens_per_s();
  std::vector<Variant> follow_ups;
  const auto follow_up = [&follow_ups](const Variant& way, const JobPlan& way_plan) {
    if (!way_plan.pipeline) return;
    const PipelinePlan& pipeline = *way_plan.pipeline;
    if (!way_plan.fits() && pipeline.most_pending() > 0)
      follow_ups.push_back(with_pending(way, pipeline.limit_within(way_plan.usable_bytes)));
    const std::string even = pipeline.even_layout();
    if (!even.empty() && even != print_layout(pipeline.layers()))
      follow_ups.push_back(with_layout(way, even));
  };
  const auto try_way = [&](const Variant& way, bool has_follow_ups) {
    if (watch.seconds() >= limits.seconds) {
      ++result.not_searched;
      return;
    }
    try {
      const JobPlan other = plan_job(way.config, way.world, std::nullopt, *plan.device);
      ++result.planned;
      if (has_follow_ups) follow_up(way, other);
      if (!other.fits() || other.tokens_per_s() <= plan.tokens_per_s()) return;
      result.found.push_back(remedy_of(job, way, other));
      if (other.tokens_per_s() <= tokens_per_s) return;
      tokens_per_s = other.tokens_per_s();
      fastest = way;
    } catch (const Error& error) {
      result.failed.push_back(fmt::format("{}: {}", fmt::join(flags_between(job, way), " "), error.what()));
    }
  };
  follow_up(job, plan);
  try_way(with_other_gradient_sync(job), true);
  const std::vector<Variant> ways = pipelines(fastest);
  for (auto way = ways.begin() + 1; way != ways.end(); ++way) try_way(*way, true);
  for (const Variant& way : std::exchange(follow_ups, {})) try_way(way, false);
  for (const Variant& way : microbatch_sizes(fastest)) try_way(way, false);
  std::sort(result.found.begin(), result.found.end(), is_faster);
  if (result.found.size() > limits.remedies) result.found.resize(limits.remedies);
  result.seconds = watch.seconds();
  return result;
}

}  // namespace rondo
