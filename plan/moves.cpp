// Each kind of setting is a function from a way to its other values.
#include "plan/moves.h"

#include <algorithm>
#include <array>
#include <utility>

#include "config/derived/batch.h"
#include "config/derived/layout.h"
#include "models/parts/model_spec.h"

namespace rondo {
namespace {

constexpr std::int64_t kMaxDegree = 64;      // of a pipeline and of context parallelism
constexpr std::int64_t kMaxMicrobatch = 64;  // sequences of a rank at a time
constexpr double kCapacities[] = {1, 1.25, 1.5, 2};
constexpr double kBudgets[] = {0.25, 0.5, 0.75};  // of saved activations

bool has_experts(const Variant& v) {
  const ModelSpec* model = find_model_spec(v.config.model.name);
  return model != nullptr && !model->shared(v.config.model.sizes).experts.empty();
}

class Choices {
 public:
  Choices(const Variant& way, const SearchedJob& searched) : way_(way), searched_(searched) {}

  void add(const std::optional<Variant>& v) {
    if (v && !flags_between(way_, *v).empty()) variants_.push_back(*v);
  }
  // Adds the way as `change` alters it, if no rule is broken.
  template <class Change>
  void changed(const Change& change) {
    Variant v = way_;
    change(v.config);
    if (is_valid(v, searched_)) add(v);
  }
  std::vector<Variant> take() { return std::move(variants_); }

 private:
  const Variant& way_;
  const SearchedJob& searched_;
  std::vector<Variant> variants_;
};

std::vector<Variant> other_policies(const Variant& way, const SearchedJob& searched) {
  Choices choices(way, searched);
  for (const Variant& v : memory_policies(way))
    if (is_valid(v, searched)) choices.add(v);
  for (const double budget : kBudgets) {
    Variant v = with_policy(way, MemoryPolicy::budget);
    v.config.activation_checkpoint.memory_budget = budget;
    if (is_valid(v, searched)) choices.add(v);
  }
  return choices.take();
}

std::vector<Variant> microbatches(const Variant& way, const SearchedJob& searched) {
  Choices choices(way, searched);
  const std::int64_t size = microbatch(way);
  if (size > 2) choices.add(with_microbatch(way, 1, searched));
  for (const std::int64_t other : {size / 2, size * 2, size * 4})
    if (other > 0 && other <= kMaxMicrobatch) choices.add(with_microbatch(way, other, searched));
  return choices.take();
}

std::vector<Variant> other_loss(const Variant& way, const SearchedJob& searched) {
  Choices choices(way, searched);
  const auto set = [&](Numerics numerics, std::int64_t chunks) {
    choices.changed([&](JobConfig& c) {
      c.compile.numerics = numerics;
      c.compile.loss_chunks = chunks;
    });
  };
  const Compile& own = way.config.compile;
  set(Numerics::rounds, own.numerics == Numerics::exact ? 0 : 4 * std::max<std::int64_t>(own.loss_chunks, 4));
  if (own.numerics == Numerics::rounds) {
    set(Numerics::rounds, 0);
    set(Numerics::rounds, -1);
  }
  return choices.take();
}

std::vector<Variant> other_tensor(const Variant& way, const SearchedJob& searched) {
  Choices choices(way, searched);
  for (std::int64_t tp = 1; tp <= searched.device->ranks_per_node && tp <= 8; tp *= 2)
    choices.add(with_degrees(way, {degrees_of(way).pipeline, tp, degrees_of(way).context}, searched));
  return choices.take();
}

std::vector<Variant> other_pipeline(const Variant& way, const SearchedJob& searched) {
  Choices choices(way, searched);
  const auto [pp, tp, cp] = degrees_of(way);
  std::vector<std::int64_t> degrees = {pp / 2, pp * 2, pp * 4};
  if (pp == 1) degrees = {4, 8, 2, 16};
  if (pp > 2) degrees.push_back(1);
  for (const std::int64_t degree : degrees)
    if (degree > 0 && degree <= kMaxDegree) choices.add(with_degrees(way, {degree, tp, cp}, searched));
  return choices.take();
}

std::vector<Variant> other_context(const Variant& way, const SearchedJob& searched) {
  Choices choices(way, searched);
  const auto [pp, tp, cp] = degrees_of(way);
  for (const std::int64_t degree : {cp / 2, cp * 2, cp * 4, cp * 8})
    if (degree > 0 && degree <= kMaxDegree) choices.add(with_degrees(way, {pp, tp, degree}, searched));
  return choices.take();
}

// Moves a factor of two from one degree to another.
std::vector<Variant> exchanged_degrees(const Variant& way, const SearchedJob& searched) {
  Choices choices(way, searched);
  const auto own = degrees_of(way);
  for (auto from : {&DenseDegrees::pipeline, &DenseDegrees::tensor, &DenseDegrees::context})
    for (auto to : {&DenseDegrees::pipeline, &DenseDegrees::tensor, &DenseDegrees::context}) {
      DenseDegrees degrees = own;
      if (from == to || degrees.*from == 1) continue;
      degrees.*from /= 2;
      degrees.*to *= 2;
      if (degrees.tensor <= std::min(8, searched.device->ranks_per_node))
        choices.add(with_degrees(way, degrees, searched));
    }
  return choices.take();
}

std::vector<Variant> other_experts(const Variant& way, const SearchedJob& searched) {
  Choices choices(way, searched);
  if (!has_experts(way)) return {};
  const std::int64_t ep = way.config.parallelism.expert_parallel_degree;
  for (const std::int64_t degree : {ep / 2, ep / 4, ep * 2, ep * 4})
    if (degree > 0) choices.changed([&](JobConfig& c) { c.parallelism.expert_parallel_degree = degree; });
  const std::int64_t tp = way.config.parallelism.tensor_parallel_degree;
  choices.changed([&](JobConfig& c) {
    std::int64_t& own = c.parallelism.expert_tensor_parallel_degree;
    own = own == 1 ? tp : 1;
  });
  return choices.take();
}

std::vector<Variant> other_exchange(const Variant& way, const SearchedJob& searched) {
  Choices choices(way, searched);
  if (way.config.parallelism.expert_parallel_degree > 1)
    choices.changed([](JobConfig& c) {
      ExpertExchange& own = c.parallelism.expert_parallel_comm_backend;
      own = own == ExpertExchange::fixed_size ? ExpertExchange::exact_counts : ExpertExchange::fixed_size;
      c.parallelism.expert_parallel_combine = ExpertCombine::reduce_scatter;
    });
  if (way.config.parallelism.expert_parallel_degree > 1 &&
      way.config.parallelism.expert_parallel_comm_backend == ExpertExchange::fixed_size)
    choices.changed([](JobConfig& c) {
      ExpertCombine& own = c.parallelism.expert_parallel_combine;
      own = own == ExpertCombine::reduce_scatter ? ExpertCombine::all_to_all : ExpertCombine::reduce_scatter;
    });
  return choices.take();
}

std::vector<Variant> other_replicas(const Variant& way, const SearchedJob& searched) {
  Choices choices(way, searched);
  const std::int64_t own = way.config.parallelism.data_parallel_replicate_degree;
  std::vector<std::int64_t> degrees = {own / 2, own * 2, own * 4,
                                       way.world / searched.device->ranks_per_node};
  std::sort(degrees.begin(), degrees.end());
  degrees.erase(std::unique(degrees.begin(), degrees.end()), degrees.end());
  for (const std::int64_t degree : degrees)
    if (degree > 0)
      choices.changed([&](JobConfig& c) {
        c.parallelism.data_parallel_replicate_degree = degree;
        c.parallelism.data_parallel_shard_degree = -1;
      });
  return choices.take();
}

std::vector<Variant> other_reshard(const Variant& way, const SearchedJob& searched) {
  Choices choices(way, searched);
  using enum ReshardAfterForward;
  if (resolve_layout(way.config, way.world).mesh.degree(kWholeShardAxes) > 1)
    for (const ReshardAfterForward value : {always, never, all_but_last})
      if (!way.config.parallelism.has_pipeline() || value != never)
        choices.changed([&](JobConfig& c) { c.parallelism.fsdp_reshard_after_forward = value; });
  return choices.take();
}

std::vector<Variant> other_gradient_sync(const Variant& way, const SearchedJob& searched) {
  Choices choices(way, searched);
  const Layout layout = resolve_layout(way.config, way.world);
  if (layout.microbatches > 1 && layout.mesh.degree(kWholeShardAxes) > 1)
    choices.add(with_other_gradient_sync(way));
  return choices.take();
}

// Keeps the sequences of a microbatch where a step has several, and divides them otherwise.
std::vector<Variant> other_overlap(const Variant& way, const SearchedJob& searched) {
  Choices choices(way, searched);
  if (way.config.parallelism.has_pipeline()) return {};
  const std::int64_t microbatches = resolve_layout(way.config, way.world).microbatches,
                     size = microbatch_size(way.config);
  for (const std::int64_t count : {1, 2, 4, 8})
    choices.changed([&](JobConfig& c) {
      Parallelism& p = c.parallelism;
      p.overlapped_microbatches = count;
      if (microbatches % count == 0) c.training.local_batch_size = size * count;
      if (count > 1 && p.expert_capacity_factor > 0 && p.expert_overflow == ExpertOverflow::repeat)
        p.expert_overflow = ExpertOverflow::skip;
    });
  return choices.take();
}

std::vector<Variant> other_schedules(const Variant& way, const SearchedJob& searched) {
  Choices choices(way, searched);
  for (const Variant& v : pipelines(way))
    if (is_valid(v, searched)) choices.add(v);
  return choices.take();
}

std::vector<Variant> other_groups(const Variant& way, const SearchedJob& searched) {
  Choices choices(way, searched);
  choices.changed(
      [](JobConfig& c) { c.compile.enable_fsdp_ag_rs_overlap = !c.compile.enable_fsdp_ag_rs_overlap; });
  if (way.config.parallelism.context_parallel_degree > 1)
    choices.changed([](JobConfig& c) {
      ContextExchange& own = c.parallelism.context_parallel_rotate_method;
      own = own == ContextExchange::all_gather ? ContextExchange::all_to_all : ContextExchange::all_gather;
    });
  return choices.take();
}

std::vector<Variant> other_pieces(const Variant& way, const SearchedJob& searched) {
  Choices choices(way, searched);
  if (way.config.parallelism.tensor_parallel_degree > 1)
    choices.changed([](JobConfig& c) {
      bool& own = c.parallelism.enable_async_tensor_parallel;
      own = !own;
      c.compile.tensor_parallel_pieces = 0;
    });
  return choices.take();
}

std::vector<Variant> other_moments(const Variant& way, const SearchedJob& searched) {
  Choices choices(way, searched);
  if (const Variant v = with_bf16_moments(way); is_valid(v, searched)) choices.add(v);
  return choices.take();
}

std::vector<Variant> other_capacity(const Variant& way, const SearchedJob& searched) {
  Choices choices(way, searched);
  if (!has_experts(way) || way.config.parallelism.expert_parallel_degree == 1) return {};
  for (const double factor : kCapacities)
    choices.changed([&](JobConfig& c) {
      c.parallelism.expert_capacity_factor = factor;
      if (c.parallelism.has_pipeline() && c.parallelism.expert_overflow == ExpertOverflow::repeat)
        c.parallelism.expert_overflow = ExpertOverflow::skip;
    });
  return choices.take();
}

std::vector<Variant> other_float8(const Variant& way, const SearchedJob& searched) {
  Choices choices(way, searched);
  if (searched.device->peak_float8_flops_per_s == 0) return {};
  const auto add = [&](const std::string& converter, auto set) {
    const auto& own = way.config.model.converters;
    const Model& model = way.config.model;
    if (converter == "float8" ? model.converts_to_mx() || model.converts_to_nvfp4()
                              : model.converts_experts_to_mx())
      return;
    if (std::find(own.begin(), own.end(), converter) != own.end()) return;
    choices.changed([&](JobConfig& c) {
      c.model.converters.push_back(converter);
      set(c);
    });
  };
  add("float8", [](JobConfig&) {});
  add("float8", [](JobConfig& c) { c.float8_linear.recipe_name = Float8Recipe::rowwise; });
  if (has_experts(way) && searched.device->float8_blocks_fraction > 0)
    add("quantize.grouped_mm.float8", [](JobConfig& c) { c.float8_experts.fqns = {"experts"}; });
  return choices.take();
}

constexpr std::array kMoves = {
    Move{"memory policy", other_policies, true},
    Move{"loss", other_loss, true},
    Move{"local batch", microbatches},
    Move{"moments", other_moments},
    Move{"pipeline", other_pipeline},
    Move{"tensor parallelism", other_tensor},
    Move{"context parallelism", other_context},
    Move{"degrees", exchanged_degrees},
    Move{"experts", other_experts},
    Move{"capacity", other_capacity},
    Move{"exchange", other_exchange},
    Move{"reshard", other_reshard},
    Move{"gradient sync", other_gradient_sync},
    Move{"schedule", other_schedules},
    Move{"overlapped microbatches", other_overlap},
    Move{"replicas", other_replicas},
    Move{"process groups", other_groups},
    Move{"asynchronous tensor parallelism", other_pieces},
    Move{"float8", other_float8},
};

}  // namespace

std::span<const Move> moves() { return kMoves; }

std::vector<Variant> other_layouts(const Variant& way, const SearchedJob& searched) {
  Choices choices(way, searched);
  const auto [pp, tp, cp] = degrees_of(way);
  for (std::int64_t degree = 1; degree <= 32; degree *= 2) {
    choices.add(with_degrees(way, {degree, tp, cp}, searched));
    if (degree > 8) continue;
    if (degree <= searched.device->ranks_per_node) choices.add(with_degrees(way, {pp, degree, cp}, searched));
    choices.add(with_degrees(way, {pp, tp, degree}, searched));
  }
  return choices.take();
}

std::vector<Variant> with_one_change_less(const Variant& way, const SearchedJob& searched) {
  Choices choices(way, searched);
  JobConfig own = searched.job.config;
  for (const Section& section : sections())
    for (const Field& field : *section.fields)
      choices.changed([&](JobConfig& c) { field.set(section.in(c), field.get(section.in(own))); });
  return choices.take();
}

}  // namespace rondo
