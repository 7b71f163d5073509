// Divides layers by one of three keys, or else evenly by the schedule's usual number of stages. The
// schedule is a named one or a CSV file. Everything is read before it is checked, so one check
// reports all mistakes. A named schedule is proven when its program is built; a CSV file has its
// whole program and is proven at once.
#include "config/derived/pipeline_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "config/derived/batch.h"
#include "config/derived/compile_options.h"
#include "config/schema/value_checks.h"
#include "parallel/pipeline/csv.h"
#include "parallel/pipeline/layers.h"
#include "parallel/pipeline/schedules.h"
#include "support/error.h"
#include "support/files/file.h"
#include "support/printable.h"
#include "support/text/fingerprint.h"

namespace rondo {
namespace {

using pipeline::StageLayers;

constexpr const char* kDegree = "parallelism.pipeline_parallel_degree";
constexpr const char* kSchedule = "parallelism.pipeline_parallel_schedule";
constexpr const char* kCsv = "parallelism.pipeline_parallel_schedule_csv";
constexpr const char* kLayout = "parallelism.pipeline_parallel_layout";
constexpr const char* kModules = "parallelism.module_fqns_per_model_part";
constexpr const char* kPerStage = "parallelism.pipeline_parallel_layers_per_stage";
constexpr const char* kMicrobatch = "parallelism.pipeline_parallel_microbatch_size";
constexpr const char* kPending = "parallelism.pipeline_parallel_max_pending_weight_gradients";

std::int64_t layers_of(const JobConfig& config) {
  const auto size = config.model.sizes.find("n_layers");
  return size == config.model.sizes.end() ? 0 : std::get<std::int64_t>(size->second);
}

// Reads module names into `stages`. Returns "" if the parts hold all modules of a model in order,
// each once; else the broken rule.
std::string read_modules(const std::vector<std::string>& parts, std::int64_t layers,
                         std::vector<StageLayers>& stages) {
  const auto name = [&](std::int64_t i) -> std::string {
    if (i == 0) return "tok_embeddings";
    if (i <= layers) return fmt::format("layers.{}", i - 1);
    return i == layers + 1 ? "norm" : i == layers + 2 ? "output" : "";
  };
  std::int64_t next = 0;
  for (const std::string& part : parts) {
    StageLayers& stage = stages.emplace_back();
    for (std::size_t begin = 0; begin < part.size();) {
      const std::size_t end = std::min(part.find('+', begin), part.size());
      const std::string given = part.substr(begin, end - begin);
      begin = end + 1;
      if (given != name(next))
        return fmt::format(
            "stage {} has \"{}\", but {}; stages hold tok_embeddings, layers.0 to layers.{}, norm "
            "and output in this order, each once",
            stages.size() - 1, printable(given, 60),
            name(next).empty() ? "all modules are in stages already" : name(next) + " is next", layers - 1);
      if (next == 0) stage.embedding = true;
      if (next >= 1 && next <= layers) ++stage.layers;
      if (next == layers + 2) stage.loss = true;
      ++next;
      if (next == layers + 2 && begin >= part.size())
        return fmt::format("norm ends stage {}, but norm and output belong to one stage", stages.size() - 1);
    }
  }
  return name(next).empty() ? "" : fmt::format("no stage has {}", name(next));
}

std::vector<StagePart> parts_of(const std::vector<StageLayers>& stages) {
  std::vector<StagePart> parts;
  for (const StageLayers& stage : stages)
    parts.push_back({parts.empty() ? 0 : parts.back().end(), stage.layers, stage.embedding, stage.loss});
  return parts;
}

// Returns the rules that settings break which the bodies of a stage do not support. `key` selects
// the schedule, and `schedule` names it in the rules.
std::vector<BrokenRule> broken_features(const JobConfig& config, const std::string& key,
                                        const std::string& schedule) {
  std::vector<BrokenRule> broken;
  if (memory_policy(config) == MemoryPolicy::sac_and_offload)
    broken.push_back({{"compile.memory_policy", "activation_checkpoint.mode", key},
                      schedule + " holds activations of several microbatches and cannot offload them to host "
                                 "memory; set compile.memory_policy = \"default\" or \"full\""});
  const Parallelism& p = config.parallelism;
  if (p.expert_capacity_factor != 0 && p.expert_overflow == ExpertOverflow::repeat)
    broken.push_back({{"parallelism.expert_overflow", "parallelism.expert_capacity_factor", key},
                      schedule + " cannot repeat a step whose experts overflow; set "
                                 "parallelism.expert_overflow = \"skip\" or \"drop\", or "
                                 "parallelism.expert_capacity_factor = 0"});
  return broken;
}

// Returns the whole model as a stage of its own, whose microbatches overlap.
PipelineLayout one_stage(const JobConfig& config, std::int64_t microbatches) {
  pipeline::Proven proven =
      pipeline::lower_and_prove(pipeline::overlapped(static_cast<std::int32_t>(microbatches)));
  return {{{0, layers_of(config), /*embedding=*/true, /*head=*/true}},
          std::move(proven.lowered),
          std::move(proven.proof)};
}

class Division {
 public:
  Division(const JobConfig& config, std::optional<std::int64_t> microbatches)
      : config_(config),
        p_(config.parallelism),
        layers_(layers_of(config)),
        ranks_(static_cast<std::int32_t>(p_.pipeline_parallel_degree)),
        microbatches_(microbatches) {
    if (layers_ == 0) return;  // unknown model, reported where its name is read
    check_features();
    read_schedule();
    divide();
    if (!stages_.empty()) check_stages();
  }

  const std::vector<BrokenRule>& broken() const { return broken_; }
  std::int64_t stages() const { return std::ssize(stages_); }

  // REQUIRES: broken() is empty, and the number of microbatches is given.
  PipelineLayout layout() && {
    if (!of_file_) of_file_ = limited(requested(make_program(*schedule_, shape())));
    return {parts_of(stages_), std::move(of_file_->lowered), std::move(of_file_->proof)};
  }

 private:
  void require(bool holds, std::vector<std::string> keys, std::string rule) {
    if (!holds) broken_.push_back({std::move(keys), std::move(rule)});
  }

  void check_features() {
    const auto tied = config_.model.sizes.find("tie_embeddings");
    require(tied == config_.model.sizes.end() || !std::get<bool>(tied->second),
            {kDegree, "model.tie_embeddings", "model.flavor", "model.name"},
            "tied embeddings would be on both the first and the last stage; set model.tie_embeddings = "
            "false, or parallelism.pipeline_parallel_degree = 1");
    for (BrokenRule& rule : broken_features(config_, kDegree, "a pipeline"))
      broken_.push_back(std::move(rule));
  }

  void read_schedule() {
    const std::string& name = p_.pipeline_parallel_schedule;
    const std::string& file = p_.pipeline_parallel_schedule_csv;
    if (file.empty()) {
      schedule_ = pipeline::find_schedule(name);
      require(schedule_ != nullptr, {kSchedule, kCsv},
              fmt::format("\"{}\" means the schedule of a CSV file; set {}, or name a schedule", name, kCsv));
      return;
    }
    require(name == Parallelism().pipeline_parallel_schedule || is_schedule_of_csv(name), {kCsv, kSchedule},
            fmt::format("\"{}\" has a schedule, and {} = \"{}\" is another; remove one of them", file,
                        kSchedule, name));
    try {
      const pipeline::Program program =
          requested(pipeline::read_csv(read_file(file, pipeline::kLargestCsv, FileUse::data), file));
      const auto ranks = static_cast<std::int32_t>(program.ranks.size());
      require(ranks == ranks_, {kCsv, kDegree},
              fmt::format("{} has {} rows, but {} = {}: a row has the actions of one rank", file, ranks,
                          kDegree, ranks_));
      require(
          !microbatches_ || program.microbatches == *microbatches_,
          {kCsv, kMicrobatch, "training.local_batch_size", "training.global_batch_size"},
          fmt::format("{} has {} microbatches, but a step has {}: sequences of a rank in a step / {} = {}",
                      file, program.microbatches, microbatches_.value_or(0), kMicrobatch,
                      p_.pipeline_parallel_microbatch_size));
      of_file_ = prove_file(program, file);
      check_limit(program, kCsv);
    } catch (const Error& error) {
      require(false, {kCsv}, error.what());
    }
  }

  pipeline::Program requested(pipeline::Program program) const {
    if (p_.pipeline_parallel_expert_parallel_overlap) return program;
    for (auto& actions : program.ranks)
      for (pipeline::Action& action : actions) action.with_next = false;
    return program;
  }

  static pipeline::Proven prove_file(const pipeline::Program& program, const std::string& file) {
    try {
      return pipeline::lower_and_prove(program);
    } catch (const Error& error) {
      throw Error(ExitCode::config, fmt::format("{}: {}", file, error.what()));
    }
  }

  pipeline::Proven limited(const pipeline::Program& program) const {
    const auto most = p_.pipeline_parallel_max_pending_weight_gradients;
    return pipeline::lower_and_prove(most ? limit_pending(program, static_cast<std::int32_t>(*most))
                                          : program);
  }

  // Checks the limit for a program, proven without it, of `key`.
  void check_limit(const pipeline::Program& program, const char* key) {
    if (!p_.pipeline_parallel_max_pending_weight_gradients) return;
    try {
      pipeline::Proven proven = limited(program);
      if (of_file_) of_file_ = std::move(proven);
    } catch (const Error& error) {
      require(false, {kPending, key}, error.what());
    }
  }

  void divide() {
    const int ways = (p_.pipeline_parallel_layout.empty() ? 0 : 1) +
                     (p_.module_fqns_per_model_part.empty() ? 0 : 1) +
                     (p_.pipeline_parallel_layers_per_stage ? 1 : 0);
    require(ways < 2, {kLayout, kModules, kPerStage},
            fmt::format("{}, {} and {} each say how layers are divided; set one of them", kLayout, kModules,
                        kPerStage));
    if (!p_.pipeline_parallel_layout.empty()) {
      divided_by_ = kLayout;
      take_layout();
    } else if (!p_.module_fqns_per_model_part.empty()) {
      divided_by_ = kModules;
      const std::string rule = read_modules(p_.module_fqns_per_model_part, layers_, stages_);
      require(rule.empty(), {kModules, "model.n_layers"}, rule);
      if (!rule.empty()) stages_.clear();
    } else {
      divide_evenly();
    }
  }

  void take_layout() {
    if (!pipeline::read_layout(p_.pipeline_parallel_layout, stages_).empty())
      return;  // reported by the key's check
    std::int64_t layers = 0, predictions = 0;
    for (const StageLayers& stage : stages_) {
      layers += stage.layers;
      predictions += stage.prediction_layers;
    }
    require(layers == layers_, {kLayout, "model.n_layers", "model.flavor"},
            fmt::format("the layout has {} layers t, but model.n_layers = {}", layers, layers_));
    require(predictions == 0, {kLayout}, "no model has multi-token prediction layers, m");
  }

  void divide_evenly() {
    const std::int64_t first = p_.pipeline_parallel_first_stage_less_layers,
                       last = p_.pipeline_parallel_last_stage_less_layers;
    std::int64_t count = 0;
    if (p_.pipeline_parallel_layers_per_stage) {
      divided_by_ = kPerStage;
      const std::int64_t each = *p_.pipeline_parallel_layers_per_stage;
      count = (layers_ + first + last + each - 1) / each;
      require(
          count % ranks_ == 0, {kPerStage, kDegree},
          fmt::format("ceil(({} layers + {} + {}) / {}) = {}, the number of stages, must be a multiple of "
                      "{} = {}",
                      layers_, first, last, each, count, kDegree, ranks_));
      if (count % ranks_ != 0) return;
    } else if (of_file_) {
      divided_by_ = kCsv;
      count = of_file_->lowered.stages;
    } else if (schedule_ != nullptr) {
      count = std::int64_t{ranks_} * schedule_->default_stages_per_rank;
    }
    if (count == 0) return;
    const bool enough = layers_ >= count - 2;
    require(enough, {divided_by_, kDegree, "model.n_layers", "model.flavor"},
            fmt::format("{} stages need at least {} layers, one each but for the first and the last, and "
                        "model.n_layers = {}; take fewer stages",
                        count, count - 2, layers_));
    if (enough)
      stages_ = pipeline::split_layers(static_cast<std::int32_t>(layers_), static_cast<std::int32_t>(count),
                                       {static_cast<double>(first), static_cast<double>(last)});
  }

  void check_stages() {
    const auto empty = std::find(stages_.begin(), stages_.end(), StageLayers());
    require(empty == stages_.end(), {divided_by_},
            fmt::format("stage {} is empty; a stage needs a layer, the embedding or the head",
                        empty - stages_.begin()));
    if (of_file_) {
      require(of_file_->lowered.stages == stages(), {divided_by_, kCsv},
              fmt::format("{} has {} stages, but the layers are divided over {}",
                          p_.pipeline_parallel_schedule_csv, of_file_->lowered.stages, stages()));
      return;
    }
    require(stages() % ranks_ == 0, {divided_by_, kDegree},
            fmt::format("the number of stages, {}, must be a multiple of {} = {}: ranks have equally many",
                        stages(), kDegree, ranks_));
    if (stages() % ranks_ != 0 || schedule_ == nullptr) return;
    const auto wrong = broken_shape(*schedule_, shape());
    if (!wrong) return check_limit(requested(make_program(*schedule_, shape())), kSchedule);
    if (wrong->number == pipeline::BrokenShape::Number::stages_per_rank)
      require(false, {divided_by_, kSchedule, kDegree},
              fmt::format("{} stages on {} ranks are {} a rank, which {}; divide the layers differently, or "
                          "choose another schedule",
                          stages(), ranks_, shape().stages_per_rank, wrong->rule));
    else
      require(
          false, {kMicrobatch, "training.local_batch_size", "training.global_batch_size", kSchedule},
          fmt::format("a step has {} microbatches, sequences of a rank in a step / {} = {}; their number {}",
                      shape().microbatches, kMicrobatch, p_.pipeline_parallel_microbatch_size, wrong->rule));
  }

  // With unknown microbatches, uses a number that every schedule accepts.
  pipeline::PipelineShape shape() const {
    const std::int64_t microbatches =
        std::min<std::int64_t>(microbatches_.value_or(stages()), pipeline::kMaxMicrobatches);
    return {ranks_, static_cast<std::int32_t>(stages() / ranks_), static_cast<std::int32_t>(microbatches)};
  }

  const JobConfig& config_;
  const Parallelism& p_;
  std::int64_t layers_;
  std::int32_t ranks_;
  std::optional<std::int64_t> microbatches_;
  const char* divided_by_ = kSchedule;  // the key that sets the number of stages
  const pipeline::Schedule* schedule_ = nullptr;
  std::optional<pipeline::Proven> of_file_;
  std::vector<StageLayers> stages_;
  std::vector<BrokenRule> broken_;
};

}  // namespace

std::optional<PipelineLayout> pipeline_layout(const JobConfig& config, const Layout& layout) {
  if (!follows_schedule(config)) return std::nullopt;
  if (!config.parallelism.has_pipeline()) return one_stage(config, layout.microbatches);
  Division division(config, layout.microbatches);
  if (!division.broken().empty()) throw Error(ExitCode::config, division.broken()[0].rule);
  return std::move(division).layout();
}

std::string fingerprint(const PipelineLayout& layout) {
  std::string text = to_csv(layout.program);
  for (const StagePart& stage : layout.stages)
    text += fmt::format("{} {} {} {}\n", stage.first_layer, stage.layers, stage.embedding, stage.head);
  return fingerprint_of(text);
}

std::vector<BrokenRule> broken_pipeline(const JobConfig& config, std::optional<std::int64_t> microbatches) {
  if (config.parallelism.has_pipeline()) return Division(config, microbatches).broken();
  if (!follows_schedule(config)) return {};
  std::vector<BrokenRule> broken =
      broken_features(config, microbatch_key(config), "a step of overlapped microbatches");
  if (microbatches.value_or(1) > pipeline::kMaxMicrobatches)
    broken.push_back({{"training.global_batch_size", microbatch_key(config)},
                      fmt::format("a step has {} microbatches, and must have at most {}", *microbatches,
                                  pipeline::kMaxMicrobatches)});
  return broken;
}

std::string few_microbatches(const JobConfig& config, std::optional<std::int64_t> microbatches) {
  if (!config.parallelism.has_pipeline() || !microbatches) return "";
  const std::int64_t stages = Division(config, microbatches).stages();
  if (*microbatches >= stages) return "";
  return fmt::format(
      "a step has {} microbatches for a pipeline of {} stages: ranks wait much of the time; more "
      "sequences, or a smaller {}, fill it",
      *microbatches, stages, kMicrobatch);
}

}  // namespace rondo
