// Coordinate descent: for one kind of setting after another (moves.h) the search takes the value
// that is best, until no value of any kind is better. A way that does not fit is the better, the
// less memory it takes; so a job that is far too large is led to ways that fit. The descent starts
// from the best change of a single key, and then from the most promising of other layouts. It first
// keeps the training as it is, with half of the plans, then allows moments in bf16, float8 and
// other capacities of experts. The state is kept in the host's memory only if nothing else keeps
// the training, since copies of it are slow.
//
// Each better way is planned whole as soon as its estimate is there.
#include "plan/search.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <ctime>
#include <map>
#include <set>
#include <utility>

#include "plan/moves.h"
#include "plan/way_plans.h"
#include "support/stopwatch.h"

namespace rondo {
namespace {

constexpr double kSlack = 1.03;  // an estimate of memory may be too high by this factor
constexpr double kSame = 1.001;  // speeds within this factor are equal
constexpr std::int64_t kMaxRankMultiple = 64;
// Parameters and moments may be this many times as large as the ranks' memory and be in the host's:
// gradients in fp32, a third as large, stay on the device.
constexpr double kMaxShareOnHost = 3;

double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

bool is_faster(const Way& a, const Way& b) { return a.tokens_per_s > b.tokens_per_s; }

// Returns the sorted names of flags, without values.
std::vector<std::string> names(std::vector<std::string> flags) {
  for (std::string& flag : flags) flag.resize(std::min(flag.size(), flag.find('=')));
  std::sort(flags.begin(), flags.end());
  return flags;
}

class Search {
 public:
  Search(const Variant& job, const JobPlan& plan, const SearchLimits& limits)
      : searched_{job, plan.layout.global_batch_size, plan.device},
        plan_(plan),
        limits_(limits),
        plans_(searched_, plan, limits.plans) {
    const auto state = [&](ir::InputKind kind) {
      return plan.memory.input_bytes[static_cast<std::size_t>(kind)] * plan.layout.mesh.world_size() /
             plan.layout.mesh.degree(Axis::dp_replicate);
    };
    const std::int64_t bytes = state(ir::InputKind::parameter) + state(ir::InputKind::optimizer);
    const std::int64_t usable = std::max<std::int64_t>(1, plan.usable_bytes);
    result_.least_ranks_for_state = (bytes + usable - 1) / usable;
    result_.most_ranks = job.world;
  }

  SearchResult run() {
    const Variant& job = searched_.job;
    Variant best = job;
    // The state of a pipeline's fullest rank says little of the others.
    const double share =
        plan_.pipeline ? 0
                       : static_cast<double>(result_.least_ranks_for_state) / static_cast<double>(job.world);
    ends_at_ = limits_.plans;
    if (!plan_.fits() && share <= 2) try_leanest();
    ends_at_ = limits_.plans / 2;
    keeps_training_ = true;
    if (share <= 1) {
      best = descend(best_single());
      if (!best_.contains(true)) best = descend(leanest(best, searched_));
    }
    if (!plan_.fits() && !best_.contains(true) && share < kMaxShareOnHost)
      if (const auto on_host = with_state_on_host(best, searched_)) descend(*on_host);
    if (share <= 1) best = from_layouts(best);
    if (share <= 2) {
      ends_at_ = limits_.plans * 9 / 10;
      keeps_training_ = false;
      best = from_layouts(descend(best));
    }
    ends_at_ = limits_.plans;
    for (const bool keeps_training : {true, false}) simplify(keeps_training);
    if (!has_fitting() && job.config.training.global_batch_size == -1) fewer_tokens(best);
    if (!has_fitting()) more_ranks();
    if (fitting_.empty() ? plan_.fits() : !best_.empty()) try_other_batches();
    finish();
    return result_;
  }

 private:
  bool is_over() {
    is_cut_ = is_cut_ || plans_.used() >= ends_at_;
    return plans_.used() >= ends_at_;
  }
  bool has_fitting() const { return plan_.fits() || !fitting_.empty(); }
  bool keeps_training(const Variant& way) const { return training_changes(searched_.job, way).empty(); }
  bool is_allowed(const Variant& way) const { return !keeps_training_ || keeps_training(way); }

  // A way is planned whole if it may fit and be the fastest.
  WayEstimate consider(const Variant& way, bool always_whole = false) {
    const WayEstimate estimate = plans_.estimate(way);
    const bool may_fit =
        estimate.is_possible && estimate.bytes <= kSlack * static_cast<double>(estimate.usable_bytes);
    if (!may_fit || (!always_whole && estimate.tokens_per_s <= fastest_for(way))) return estimate;
    const WayEstimate whole = plans_.whole(way);
    if (whole.fits()) add(way, whole);
    return whole;
  }

  // Returns the tokens/s that a way has to exceed. Ways that keep the training are compared among
  // themselves.
  double fastest_for(const Variant& way) const {
    double tokens_per_s = plan_.fits() ? plan_.tokens_per_s() : 0;
    for (const auto& [keeps, best] : best_)
      if (keeps || !keeps_training(way)) tokens_per_s = std::max(tokens_per_s, best.tokens_per_s);
    return tokens_per_s;
  }

  void add(const Variant& variant, const WayEstimate& plan) {
    Way way;
    way.flags = flags_between(searched_.job, variant);
    way.changes = training_changes(searched_.job, variant);
    way.world = variant.world;
    way.total_bytes = static_cast<std::int64_t>(plan.bytes);
    way.tokens_per_step = plan.tokens_per_step;
    way.microbatches = plan.microbatches;
    way.step_s = plan.step_s;
    way.tokens_per_s = plan.tokens_per_s;
    const auto has_flags = [&](const Way& other) { return other.flags == way.flags; };
    if (plan_.fits() && way.tokens_per_s <= plan_.tokens_per_s()) return;
    if (way.flags.empty() || std::any_of(fitting_.begin(), fitting_.end(), has_flags)) return;
    fitting_.push_back(way);
    if (way.tokens_per_step != plan_.tokens_per_step || way.world != searched_.job.world) return;
    const bool improves = way.tokens_per_s > fastest_for(variant);
    Best& best = best_[way.changes.empty()];
    if (way.tokens_per_s > best.tokens_per_s) best = {variant, way.tokens_per_s};
    if (!improves) return;
    result_.improvements.push_back({way, plans_.used(), cpu_seconds() - started_cpu_s_});
    if (limits_.improved) limits_.improved(result_.improvements.back());
  }

  // Plans the ways that are likeliest to fit, so that a job that does not fit has an answer soon.
  void try_leanest() {
    const Variant lean = leanest(searched_.job, searched_);
    if (!consider(lean, true).fits()) consider(with_bf16_moments(lean), true);
  }

  // Plans all changes of a single kind, the first of each kind first. Returns the best of those
  // that keep the training.
  Variant best_single() {
    std::vector<std::vector<Variant>> kinds;
    std::size_t most = 0;
    for (const Move& move : moves()) {
      kinds.push_back(move.choices(searched_.job, searched_));
      most = std::max(most, kinds.back().size());
    }
    Variant best = searched_.job;
    WayEstimate best_estimate = plans_.estimate(best);
    for (std::size_t i = 0; i < most; ++i)
      for (const std::vector<Variant>& kind : kinds) {
        if (is_over()) return best;
        if (i >= kind.size()) continue;
        // A single change that makes a job fit is advised beside faster changes of several keys.
        const WayEstimate estimate = consider(kind[i], !plan_.fits());
        if (!keeps_training(kind[i]) || !estimate.is_better_than(best_estimate)) continue;
        best = kind[i];
        best_estimate = estimate;
      }
    return best;
  }

  // Takes the best value of one kind of setting after the other, until no value is better.
  // `few_kinds`: only decisive kinds.
  Variant descend(Variant way, bool few_kinds = false) {
    WayEstimate estimate = consider(way);
    std::vector<std::function<std::vector<Variant>(const Variant&)>> kinds;
    for (const Move& move : moves())
      if (!few_kinds || move.is_decisive)
        kinds.emplace_back([&](const Variant& v) { return move.choices(v, searched_); });
    kinds.emplace_back([&](const Variant& v) { return plans_.suggestions(v); });
    for (std::size_t kind = 0, unchanged = 0; unchanged < kinds.size(); kind = (kind + 1) % kinds.size()) {
      ++unchanged;
      std::vector<Variant> choices = kinds[kind](way);
      for (std::size_t i = 0; i < choices.size(); ++i) {
        if (is_over()) return way;
        const Variant choice = choices[i];
        if (!is_allowed(choice)) continue;
        const WayEstimate other = consider(choice);
        // A schedule that does not fit may fit with a limit.
        if (estimate.fits() && !other.fits())
          for (const Variant& limited : plans_.suggestions(choice)) choices.push_back(limited);
        if (!other.is_better_than(estimate)) continue;
        way = choice;
        estimate = other;
        unchanged = 0;
      }
    }
    return way;
  }

  // Descends from the most promising of other layouts, where a change of one kind leads through
  // slower ways, and again while that is better. Returns the best.
  Variant from_layouts(Variant start) {
    while (!is_over()) {
      std::optional<Variant> promising;
      WayEstimate most;
      for (const Variant& way : other_layouts(start, searched_)) {
        if (is_over() || !is_allowed(way)) continue;
        const Variant other = descend(way, /*few_kinds=*/true);
        const WayEstimate estimate = consider(other);
        const bool is_start = flags_between(start, other).empty();
        if (is_start || (promising && !estimate.is_better_than(most))) continue;
        promising = other;
        most = estimate;
      }
      if (!promising) return start;
      const Variant end = descend(*promising);
      if (!consider(end).is_better_than(consider(start))) return start;
      start = end;
    }
    return start;
  }

  // Takes back changes that do not make the best way faster.
  void simplify(bool keeps_training) {
    const auto match = best_.find(keeps_training);
    if (match == best_.end()) return;
    Variant& way = match->second.way;
    for (bool is_simpler = true; is_simpler && !is_over();) {
      is_simpler = false;
      for (const Variant& simpler : with_one_change_less(way, searched_)) {
        const WayEstimate whole = plans_.whole(simpler);
        if (!whole.fits() || whole.tokens_per_s < match->second.tokens_per_s / kSame) continue;
        if (flags_between(searched_.job, simpler).empty()) continue;
        way = simpler;
        add(simpler, whole);
        is_simpler = true;
        break;
      }
    }
  }

  void fewer_tokens(const Variant& start) {
    SearchedJob less = searched_;
    for (less.sequences /= 2; less.sequences > 0 && fitting_.empty() && !is_over(); less.sequences /= 2)
      if (const auto way = with_sequences(leanest(start, less), less)) consider(*way);
  }

  void more_ranks() {
    keeps_training_ = true;
    // Multiplies the ranks by 1.5, 2, 3, 4, 6, ...
    for (std::int64_t halves = 3; halves <= 2 * kMaxRankMultiple && fitting_.empty() && !is_over();
         halves += halves % 3 == 0 ? halves / 3 : halves / 2) {
      if (searched_.job.world * halves % 2 != 0) continue;
      result_.most_ranks = searched_.job.world * halves / 2;
      if (result_.most_ranks < result_.least_ranks_for_state) continue;
      for (std::int64_t tp = 1; tp <= plan_.device->ranks_per_node && fitting_.empty(); tp *= 2) {
        Variant wider = searched_.job;
        wider.config.parallelism.tensor_parallel_degree *= tp;
        searched_.sequences = plan_.layout.global_batch_size;
        auto way = with_world(wider, result_.most_ranks, searched_);
        if (!way && wider.config.training.global_batch_size == -1) {
          searched_.sequences = searched_.sequences * result_.most_ranks / searched_.job.world;
          way = with_world(wider, result_.most_ranks, searched_);
        }
        if (!way) continue;
        const Variant lean = leanest(*way, searched_);
        if (consider(lean).fits()) descend(lean);
      }
    }
  }

  void try_other_batches() {
    Best fastest{searched_.job, 0};
    for (const auto& [keeps, best] : best_)
      if (best.tokens_per_s > fastest.tokens_per_s) fastest = best;
    for (const Variant& way : other_batches(fastest.way, searched_)) consider(way);
  }

  void finish() {
    std::stable_sort(fitting_.begin(), fitting_.end(), is_faster);
    for (const Way& way : fitting_) {
      const bool has_other_tokens =
          way.world == searched_.job.world && way.tokens_per_step != plan_.tokens_per_step;
      if (has_other_tokens) {
        if (result_.same_training.empty() && result_.changed_training.empty())
          add_listed(result_.other_tokens, way);
      } else if (way.changes.empty()) {
        add_listed(result_.same_training, way);
      } else if (result_.same_training.empty()) {
        add_listed(result_.changed_training, way);
      }
    }
    for (std::vector<Way>* list : {&result_.same_training, &result_.changed_training, &result_.other_tokens})
      shorten(*list, limits_.ways);
    result_.estimated = plans_.estimated();
    result_.planned = plans_.planned();
    result_.impossible = plans_.impossible();
    result_.is_complete = !is_cut_;
    result_.seconds = watch_.seconds();
  }

  // Adds the way unless it makes all changes of a faster one and more. It replaces a way that makes
  // more changes and is as fast.
  static void add_listed(std::vector<Way>& list, const Way& way) {
    const auto has_all_of = [](const Way& many, const Way& few) {
      const std::vector<std::string> more = names(many.flags), less = names(few.flags);
      return std::includes(more.begin(), more.end(), less.begin(), less.end());
    };
    if (std::any_of(list.begin(), list.end(), [&](const Way& faster) { return has_all_of(way, faster); }))
      return;
    std::erase_if(list, [&](const Way& faster) {
      return faster.tokens_per_s < kSame * way.tokens_per_s && has_all_of(faster, way);
    });
    list.push_back(way);
  }

  // Shortens a list to `most` ways: all but two are the fastest, and two of the rest have the
  // fewest flags.
  static void shorten(std::vector<Way>& list, std::size_t most) {
    constexpr std::size_t kSimple = 2;
    if (list.size() <= most || most < kSimple) {
      list.resize(std::min(list.size(), most));
      return;
    }
    const auto others = list.begin() + static_cast<std::ptrdiff_t>(most - kSimple);
    std::stable_sort(others, list.end(),
                     [](const Way& a, const Way& b) { return a.flags.size() < b.flags.size(); });
    list.resize(most);
    std::stable_sort(list.begin(), list.end(), is_faster);
  }

  struct Best {
    Variant way;
    double tokens_per_s = 0;
  };

  SearchedJob searched_;
  const JobPlan& plan_;
  const SearchLimits limits_;
  const Stopwatch watch_;
  const double started_cpu_s_ = cpu_seconds();
  WayPlans plans_;
  std::int64_t ends_at_ = 0;   // plans of the current part of the search
  std::map<bool, Best> best_;  // the fastest way that fits, by whether it keeps the training
  bool keeps_training_ = false;
  bool is_cut_ = false;  // a part ended at its limit
  std::vector<Way> fitting_;
  SearchResult result_;
};

}  // namespace

SearchResult search_ways(const Variant& job, const JobPlan& plan, const SearchLimits& limits) {
  return Search(job, plan, limits).run();
}

}  // namespace rondo
