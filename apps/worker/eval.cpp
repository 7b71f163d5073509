// `rondo-worker eval ...`: runs the validation of a run on one rank, with the run's step, loader
// and configuration. A model without a run is computed in fp32. Writes nothing.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "apps/worker/worker_commands.h"
#include "apps/worker_options.h"
#include "config/derived/dtypes.h"
#include "config/derived/float8.h"
#include "datasets/loader.h"
#include "runs/metrics/step_metrics.h"
#include "support/error.h"
#include "support/stopwatch.h"
#include "trainer/resume/stored_model.h"
#include "trainer/run/run.h"
#include "trainer/step/from_config.h"

namespace rondo {
namespace {

// Returns "bfloat16" or "bfloat16 and float8 rowwise, emulated"; experts have a part of their own.
std::string precision_of(const JobConfig& config) {
  std::string text(name_of(compute_dtype(config)));
  if (const std::optional<Float8Options> float8 = float8_options(config))
    text += " and float8 " + in_words(*float8);
  if (const std::optional<Float8Options> float8 = float8_expert_options(config))
    text += " and experts in float8 " + in_words(*float8);
  return text;
}

// Returns the configuration of one rank that validates with the requested batches.
JobConfig evaluation_config(const EvalOptions& options, const StoredModel& model) {
  const auto run = config_of_run(options.model);
  JobConfig config = run.value_or(JobConfig{});
  config.model.name = model.name();
  config.model.sizes = model.sizes();
  config.parallelism = {};
  config.training.global_batch_size = -1;
  Validation& validation = config.validation;
  const std::int64_t most = std::get<std::int64_t>(model.sizes().at("max_seq_len"));
  if (!run) {
    config.training.mixed_precision_param = Precision::float32;
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
    config.training.mixed_precision_param = value_named<Precision>("--dtype", options.dtype);
    Precision& dtype = config.training.dtype;
    if (dtype == Precision::float64) dtype = Precision::float32;  // float64 would override it
  }
  if (options.document_attention) config.training.document_attention = true;
  config.training.tokenizer = tokenizer_of(options.model, options.tokenizer);
  if (validation.seq_len > most)
    throw Error(ExitCode::usage, fmt::format("eval: --seq-len {} must be at most model.max_seq_len = {}",
                                             validation.seq_len, most));
  return config;
}

// Returns the batches of one validation of the run, over all its ranks.
std::int64_t batches_of_run(const JobConfig& config, const EvalOptions& options) {
  const nlohmann::json layout = checkpoint::Reader(options.model.folder).manifest().layout;
  const std::int64_t ranks = layout.value("data_parallel_shard", std::int64_t{1}) *
                             layout.value("data_parallel_replicate", std::int64_t{1});
  return config.validation.steps * ranks;
}

// Prepares a run that only validates, with the stored model as its state.
void prepare(Run& run, StoredModel& model) {
  run.device = take_device(run.config, run.environment);
  run.model = model.decoder();
  run.tokenizer = load_tokenizer(run.config.training.tokenizer, run.config.training.special_tokens);
  run.program = std::make_unique<StepProgram>(
      make_train_step(run.model, step_options(run.config, run.layout, 0)).validate,
      compile_request(run.config, run.device.type(), {}));
  check_vocabulary(*run.tokenizer, run.model->vocabulary());
  run.validation_data =
      std::make_unique<DataLoader>(validation_data(run.config, run.layout, run.environment), *run.tokenizer);
  init_state(run, &StepWatch::end_hung);
  for (const StatePart& part : run.state->parts()) {
    at::Tensor shard = part.tensor;
    model.load(part.name.substr(part.name.find('/') + 1), part.place, shard);
  }
}

// Returns the batches of one pass over the data. The last one may have fewer rows.
std::int64_t all_batches(const Run& run) {
  const std::int64_t rows = run.config.validation.local_batch_size;
  return (run.validation_data->summary().samples_per_epoch + rows - 1) / rows;
}

LossSum evaluate(Run& run, std::int64_t batches) {
  LossSum sum;
  for (std::int64_t i = 0; i < batches; ++i) {
    const StepWatch::Span watched(*run.watch, progress::Doing::validating);
    const StepBatch batch = run.validation_data->next();
    sum.add(run.runner->validate(batch));
  }
  if (sum.labels == 0)
    throw Error(ExitCode::data,
                fmt::format("eval: no row of \"{}\" has a label; with document attention the last token of a "
                            "document has none",
                            run.config.validation.dataset_path));
  return sum;
}

}  // namespace

int run_eval(const std::vector<std::string>& args) {
  const auto options = read_eval_options(args);
  if (!options) return 0;
  StoredModel model(options->model.folder);
  const JobConfig config = evaluation_config(*options, model);
  Run run(config, {});
  prepare(run, model);
  const bool all_data = !options->data.empty() || config.validation.steps < 0;
  const std::int64_t most = all_batches(run);
  const std::int64_t batches =
      std::min(most, options->batches.value_or(all_data ? most : batches_of_run(config, *options)));
  const Stopwatch time;
  const LossSum evaluation = evaluate(run, batches);
  fmt::print("loss {}  perplexity {:.6g}  tokens {}  ({} batches of {} x {}, {}, {:.1f} s)\n",
             json_number(evaluation.mean()), std::exp(evaluation.mean()), evaluation.labels, batches,
             config.validation.local_batch_size, config.validation.seq_len, precision_of(config),
             time.seconds());
  return 0;
}

}  // namespace rondo
