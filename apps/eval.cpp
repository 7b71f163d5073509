// `rondo-worker eval ...`: the validation of a run, without the run: its step, its loader, its configuration,
// on one rank. A model that no run is known of is computed in fp32. Nothing is written.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "apps/eval_options.h"
#include "apps/worker_commands.h"
#include "config/float8.h"
#include "datasets/loader.h"
#include "runs/metrics/step_metrics.h"
#include "support/error.h"
#include "support/stopwatch.h"
#include "trainer/device/compute_device.h"
#include "trainer/resume/stored_model.h"
#include "trainer/step/from_config.h"
#include "trainer/step/step_runner.h"
#include "trainer/step/train_state.h"

namespace rondo {
namespace {

// "bfloat16", "bfloat16 and float8 rowwise, emulated"
std::string precision_of(const JobConfig& config) {
  std::string text = compute_dtype(config);
  if (const std::optional<Float8Options> float8 = float8_options(config))
    text += " and float8 " + in_words(*float8);
  return text;
}

// Of one rank that validates with the batches that were asked for.
JobConfig evaluation(const EvalOptions& options, const StoredModel& model) {
  const auto run = config_of_run(options.model);
  JobConfig config = run.value_or(JobConfig{});
  config.model.name = model.name();
  config.model.sizes = model.sizes();
  config.parallelism = {};
  config.training.global_batch_size = -1;
  Validation& validation = config.validation;
  const std::int64_t most = std::get<std::int64_t>(model.sizes().at("max_seq_len"));
  if (!run) {
    config.training.mixed_precision_param = "float32";
    config.training.seq_len = std::min<std::int64_t>(2048, most);
    config.training.local_batch_size = 1;
  }
  if (!validation.enable) {
    validation.seq_len = config.training.seq_len;
    validation.local_batch_size = config.training.local_batch_size;
  }
  validation.enable = true;
  if (!options.data.empty()) validation.dataset_path = options.data;
  validation.seq_len = options.seq_len.value_or(validation.seq_len);
  validation.local_batch_size = options.batch_size.value_or(validation.local_batch_size);
  if (!options.dtype.empty()) {
    config.training.mixed_precision_param = options.dtype;
    if (config.training.dtype == "float64") config.training.dtype = "float32";  // it would count alone
  }
  config.training.tokenizer = tokenizer_of(options.model, options.tokenizer);
  if (validation.seq_len > most)
    throw Error(ExitCode::usage, fmt::format("eval: --seq-len {} must be at most model.max_seq_len = {}",
                                             validation.seq_len, most));
  return config;
}

// Those of the run are on all its ranks.
std::int64_t batches_of_run(const JobConfig& config, const EvalOptions& options) {
  const nlohmann::json layout = checkpoint::Reader(options.model.folder).manifest().layout;
  const std::int64_t ranks = layout.value("data_parallel_shard", std::int64_t{1}) *
                             layout.value("data_parallel_replicate", std::int64_t{1});
  return config.validation.steps * ranks;
}

class Evaluation {
 public:
  Evaluation(StoredModel& model, const JobConfig& config)
      : layout_(resolve_layout(config, 1)),
        device_(take_device(config, {})),
        tokenizer_(load_tokenizer(config.training.tokenizer)),
        options_(step_options(config, layout_, 0)),
        functions_(make_train_step(model.decoder(), options_).validate,
                   compile_request(config, device_.type(), {})),
        state_(*model.decoder(), {&functions_.at("validate").function()}, 0, layout_.mesh, 0,
               table_length(options_), device_.device) {
    check_vocabulary(*tokenizer_, model.decoder()->vocabulary());
    data_ = std::make_unique<DataLoader>(validation_data(config, layout_, {}), *tokenizer_);
    for (const StatePart& part : state_.parts()) {
      at::Tensor shard = part.tensor;
      model.load(part.name.substr(part.name.find('/') + 1), part.place, shard);
    }
    const std::chrono::seconds limit(config.comm.init_timeout_seconds);
    watch_.emplace(StepWatch::Patience{.limit = limit, .first_limit = limit});
    runner_ = std::make_unique<StepRunner>(functions_, state_,
                                           share_resources(functions_.all(), device_.device, &*watch_));
  }

  // That the data gives in one pass; at least one.
  std::int64_t all_batches(std::int64_t batch_size) const {
    return std::max<std::int64_t>(1, data_->summary().samples_per_epoch / batch_size);
  }

  void add_batch() {
    const StepWatch::Span watched(*watch_, progress::Doing::validating);
    const StepBatch batch = data_->next();
    sum_ += static_cast<double>(runner_->validate(batch)) * static_cast<double>(batch.valid_tokens);
    tokens_ += batch.valid_tokens;
  }

  double loss() const { return sum_ / static_cast<double>(tokens_); }
  std::int64_t tokens() const { return tokens_; }

 private:
  const Layout layout_;
  const ComputeDevice device_;
  const std::unique_ptr<Tokenizer> tokenizer_;
  const TrainStepOptions options_;
  const StepProgram functions_;
  TrainState state_;
  std::unique_ptr<DataLoader> data_;
  std::optional<StepWatch> watch_;  // outlives the executors
  std::unique_ptr<StepRunner> runner_;
  double sum_ = 0;
  std::int64_t tokens_ = 0;
};

}  // namespace

int run_eval(const std::vector<std::string>& args) {
  const auto options = read_eval_options(args);
  if (!options) return 0;
  StoredModel model(options->model.folder);
  const JobConfig config = evaluation(*options, model);
  Evaluation evaluation(model, config);
  const std::int64_t batch_size = config.validation.local_batch_size;
  const bool all_data = !options->data.empty() || config.validation.steps < 0;
  const std::int64_t batches = options->batches.value_or(all_data ? evaluation.all_batches(batch_size)
                                                                  : batches_of_run(config, *options));
  const Stopwatch time;
  for (std::int64_t batch = 0; batch < batches; ++batch) evaluation.add_batch();
  fmt::print("loss {}  perplexity {:.6g}  tokens {}  ({} batches of {} x {}, {}, {:.1f} s)\n",
             json_number(evaluation.loss()), std::exp(evaluation.loss()), evaluation.tokens(), batches,
             batch_size, config.validation.seq_len, precision_of(config), time.seconds());
  return 0;
}

}  // namespace rondo
