// What can fail cheaply comes first: model, data and compilation need neither weights nor other ranks. The
// run folder is touched when model, data, device and checkpoint are accepted. Ranks compare their collectives
// before further groups are made, since ranks with different graphs would wait for ever. After each step one
// exchange of maxima carries stop requests, signals and the progress of a save, so all ranks act alike; the
// next batch is fetched before it, since what one rank cannot read stops them all. Members are destroyed from
// the bottom up: executors before groups.
#include "trainer/run/trainer.h"

#include <ATen/Context.h>
#include <fmt/format.h>
#include <torch/version.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "parallel/groups/comm_record.h"
#include "parallel/groups/nccl.h"
#include "support/error.h"
#include "support/files/input_file.h"
#include "support/log.h"
#include "support/stop_signal.h"
#include "support/version.h"
#include "trainer/run/compare_ranks.h"
#include "trainer/run/compare_replicas.h"
#include "trainer/step/from_config.h"
#include "trainer/step/functions/placement.h"

namespace rondo {
namespace {

constexpr std::chrono::seconds kReadPatience{60};  // with a disk or a file server that fails

// A rank that stands still says where before the others' collectives give it up.
StepWatch::Patience patience_of(const Comm& comm) {
  const std::chrono::milliseconds limit(800 * comm.train_timeout_seconds);
  return {limit, std::chrono::seconds(comm.init_timeout_seconds),
          std::min<std::chrono::milliseconds>(std::chrono::seconds(1), limit / 8)};
}

}  // namespace

Trainer::Trainer(const JobConfig& config, const RankEnvironment& environment, Report* report,
                 std::chrono::steady_clock::time_point started,
                 std::function<void(const std::string&)> on_hang)
    : config_(config),
      environment_(environment),
      started_(started),
      on_hang_(std::move(on_hang)),
      layout_(resolve_layout(config, environment.world_size)),
      pipeline_(pipeline_layout(config, layout_)),
      matmuls_(matmul_table(config)),
      report_(report) {}

Trainer::~Trainer() = default;

bool Trainer::prepare() {
  // Deterministic kernels, but memory is not filled before use: a plan may have put an operand there.
  at::globalContext().setDeterministicAlgorithms(config_.debug.deterministic, /*warn_only=*/false);
  at::globalContext().setDeterministicFillUninitializedMemory(false);
  device_ = take_device(config_, environment_);
  model_ = make_decoder(config_.model.name, config_.model.sizes);
  // Shorter than that of the ranks that wait for this one.
  set_read_patience(std::min(kReadPatience, std::chrono::seconds(config_.comm.train_timeout_seconds) / 2));
  tokenizer_ = load_tokenizer(tokenizer_name(config_));
  check_vocabulary(*tokenizer_, model_->vocabulary());
  data_ = std::make_unique<DataLoader>(training_data(config_, layout_, environment_), *tokenizer_);
  if (config_.validation.enable)
    validation_data_ =
        std::make_unique<DataLoader>(validation_data(config_, layout_, environment_), *tokenizer_);
  if (!accept_start()) return false;
  if (report_) report_->data(data_->summary(), validation_data_ ? &validation_data_->summary() : nullptr);
  compile();
  meet();
  draw_weights();
  bind_executors();
  watch();
  if (report_) stop_requests_.emplace(config_.job, started_);
  return true;
}

// No weight exists yet, and no rank has been met.
void Trainer::compile() {
  if (matmuls_) check_measured_on(*matmuls_, config_.compile.matmul_algorithms, device_.name);
  const TrainStepOptions options = step_options(config_, layout_, environment_.rank);
  if (report_) report_->experts(*model_, options);
  if (report_ && !InputSharding(layout_.mesh).follows_layout())
    log_warning(
        "the degrees of the experts and of the other layers do not nest, so the layout of values is not "
        "checked at each start; `rondo prove` checks it by playing steps");
  functions_ = std::make_unique<StepProgram>(compile_step(
      config_, layout_, pipeline_, environment_.rank, model_,
      compile_request(config_, device_.type(),
                      report_ ? report_->folder().graph_folder() : std::filesystem::path(), matmuls_)));
  if (report_) report_->compiled(*functions_);
}

void Trainer::meet() {
  const int rank = environment_.rank;
  if (device_.device.is_cuda() && environment_.world_size > 1) {
    const std::vector<const CompiledStep*> steps = functions_->all();
    const bool records = std::any_of(
        steps.begin(), steps.end(), [](const CompiledStep* step) { return !step->graph().segments.empty(); });
    const std::string settings = prepare_nccl(records);
    if (report_ && !settings.empty()) log_info("recorded collectives: " + settings);
  }
  comm_record::keep(static_cast<std::size_t>(config_.comm.trace_buf_size));
  groups_ = std::make_unique<ProcessGroups>(environment_, layout_.mesh.group(kAllAxes).name,
                                            std::chrono::seconds(config_.comm.init_timeout_seconds),
                                            device_.device);
  compare_settings(settings(), *groups_);
  decide_repeats();
  compare_collectives(functions_->all(), layout_.mesh,
                      *groups_);  // before the ranks of other groups wait for each other
  groups_->add(process_groups(config_, layout_, pipeline_, rank));
  name_crash_file();
  // Only now has rank 0 taken the folder. Compiling once more is cheaper than keeping all the texts.
  if (config_.compile.dump_ranks == "all" && rank != 0 && config_.compile.dump != "none")
    compile_step(config_, layout_, pipeline_, rank, model_,
                 compile_request(config_, device_.type(),
                                 RunFolder::graph_folder_of(config_.job.dump_folder, rank), matmuls_));
}

// What decides about the numbers of a run and could differ between nodes.
std::vector<std::string> Trainer::settings() const {
  std::vector<std::string> more = {
      fmt::format("data (documents and tokenizer) = {:016x}", data_->state().fingerprint)};
  if (validation_data_)
    more.push_back(fmt::format("validation data = {:016x}", validation_data_->state().fingerprint));
  // Ranks write one checkpoint: to be told so at the first save would be late.
  if (config_.checkpoint.enable)
    more.push_back("checkpoint folder = " +
                   std::filesystem::weakly_canonical(checkpoint_root(config_)).string());
  if (pipeline_) more.push_back("pipeline (stages and schedule) = " + fingerprint(*pipeline_));
  if (matmuls_) more.push_back("matmul algorithms = " + fingerprint(*matmuls_));
  more.push_back(fmt::format("rondo = {} {}", version(), commit()));
  more.push_back("LibTorch = " TORCH_VERSION);
  return settings_to_compare(config_, more);
}

// Alike on all ranks: a step is repeated by all of them or by none.
void Trainer::decide_repeats() {
  if (functions_->repeat.empty()) return;
  const bool fits = functions_->repeat_fits(device_.tensor_bytes);
  if (groups_->maximum({fits ? 0 : 1})[0] == 0) return;
  if (report_)
    log_warning(fmt::format(
        "a step whose experts overflow is skipped: to repeat it with room for all rows, a rank would need "
        "{:.1f} GiB, and has {:.1f}; parallelism.expert_overflow = \"drop\" trains on without such rows",
        static_cast<double>(planned_memory(*functions_).total_bytes()) / (1 << 30),
        static_cast<double>(device_.tensor_bytes) / (1 << 30)));
  functions_->drop_repeat();
}

void Trainer::draw_weights() {
  std::vector<const StepFunction*> stateful;
  for (const CompiledStep* step : functions_->all()) stateful.push_back(&step->function());
  state_ = std::make_unique<TrainState>(
      *model_, stateful, static_cast<std::uint64_t>(config_.debug.seed), layout_.mesh, environment_.rank,
      table_length(step_options(config_, layout_, environment_.rank)), device_.device);
}

void Trainer::bind_executors() {
  watch_.emplace(patience_of(config_.comm), on_hang_);
  runner_ = std::make_unique<StepRunner>(*functions_, *state_,
                                         share_resources(functions_->all(), device_.device, &*watch_));
}

void Trainer::watch() {
  const std::filesystem::path folder = config_.job.dump_folder;
  const Profiling& p = config_.profiling;
  const RankEnvironment& e = environment_;
  if (p.enable_profiling) profile_.emplace(p, folder / p.save_traces_folder, e.rank, e.world_size);
  if (p.enable_memory_snapshot)
    snapshot_.emplace(p, folder / p.save_memory_snapshot_folder, functions_->all(), e.rank, e.world_size);
}

void Trainer::close_checkpoints() { saver_.reset(); }

std::function<void()> Trainer::ending_of_collectives() const {
  return groups_ ? groups_->ending_of_collectives() : [] {};
}

RunCosts Trainer::costs() const {
  const std::int64_t ranks = layout_.mesh.world_size();
  return {parameter_count(*model_), model_->flops_per_token(config_.training.seq_len),
          layout_.global_batch_size * config_.training.seq_len / ranks, layout_.mesh, device_};
}

void Trainer::begin() {
  load_checkpoint();
  if (config_.checkpoint.create_seed_checkpoint) return save_seed();
  if (config_.debug.check_replicas_every > 0) refuse_drift();
  if (report_) report_->training_starts();
}

std::optional<Stop> Trainer::train() {
  begin();
  const progress::Work in_the_loop(progress::Doing::between_steps);
  if (progress_.step < last_step()) fetch_next();
  while (progress_.step < last_step()) {
    progress::at_step(progress_.step + 1);
    train_one_step();
    if (validation_is_due(progress_.step)) validate();
    if (progress_.step < last_step()) fetch_next();
    const Agreement asked = agree();
    if (progress_.step == last_step()) break;
    if (asked.request > StopRequest::save) return stop(asked);
    if (save_is_due(asked)) save();
  }
  finish();
  return std::nullopt;
}

// A seed checkpoint is step 0 alone.
std::int64_t Trainer::last_step() const {
  return config_.checkpoint.create_seed_checkpoint ? 0 : config_.training.steps;
}

bool Trainer::validation_is_due(std::int64_t step) const {
  return config_.validation.enable && (step == 1 || step % config_.validation.freq == 0);
}

bool Trainer::save_is_due(const Agreement& asked) const {
  const Checkpoint& c = config_.checkpoint;
  return asked.request == StopRequest::save || progress_.step % c.interval == 0 ||
         (progress_.step == 1 && c.enable_first_step_checkpoint);
}

Trainer::Agreement Trainer::agree() {
  std::int64_t request = stop_requests_ ? static_cast<std::int64_t>(stop_requests_->look()) : 0;
  const int signal = stop_requested().value_or(0);
  if (signal != 0) request = static_cast<std::int64_t>(StopRequest::signal);
  const bool writing = saver_ && saver_->under_way() && saver_->writing();
  if (report_ && request < static_cast<std::int64_t>(StopRequest::full_disk) && !report_->trouble().empty())
    request = static_cast<std::int64_t>(StopRequest::full_disk);
  if (data_trouble_) request = std::max(request, static_cast<std::int64_t>(StopRequest::data));
  const std::vector<std::int64_t> all = [&] {
    const StepWatch::Span watched(*watch_, progress::Doing::agreeing);
    const Stopwatch waiting;
    std::vector<std::int64_t> most = groups_->maximum({request, signal, writing});
    stragglers_.waited(waiting.seconds());
    return most;
  }();
  if (saver_ && saver_->under_way() && all[2] == 0) saver_->settle();
  const Agreement asked{static_cast<StopRequest>(all[0]), static_cast<int>(all[1])};
  if (asked.request == StopRequest::save && stop_requests_) {
    if (!saver_)
      log_warning("SAVE is ignored: this run saves nothing (checkpoint.enable, checkpoint.load_only)");
    stop_requests_->forget_save();
  }
  return asked;
}

// What was saved before is good: replicas are compared before each save.
void Trainer::refuse_drift() {
  if (compared_at_ == progress_.step) return;
  compared_at_ = progress_.step;
  const auto drift = find_drift(state_->parts(), layout_.mesh, *groups_);
  if (!drift) return;
  if (saver_) saver_->settle();
  throw Error(
      ExitCode::numerics,
      steps_here_ == 0
          ? fmt::format("the state that this run begins with is not the same on all ranks: {}. Are the "
                        "nodes' copies of checkpoint.initial_load_path the same?",
                        *drift)
          : fmt::format("step {}: ranks that should hold the same state have drifted apart: {}. "
                        "Restart from the last checkpoint (the same command does); if it happens "
                        "again, test the memory and the GPUs of these machines",
                        progress_.step, *drift));
}

void Trainer::validate() {
  if (report_) report_->pause();
  validation_data_->seek(0);
  const std::int64_t steps =
      validation_steps(config_, layout_, validation_data_->summary().samples_per_epoch);
  double sum = 0;
  std::int64_t tokens = 0;
  for (std::int64_t i = 0; i < steps; ++i) {
    const StepWatch::Span watched(*watch_, progress::Doing::validating);
    StepBatch batch;
    const bool fails = !fetch(*validation_data_, batch);
    if (groups_->maximum({fails})[0] != 0) {
      if (fails) log_warning(fmt::format("validation is left out: {}", data_trouble_->what()));
      if (report_) report_->go_on();
      return;
    }
    sum += runner_->validate(batch);
    groups_->refuse_failed();
    tokens += batch.tokens;
  }
  if (report_) report_->validation_done(progress_.step, sum / static_cast<double>(steps), tokens);
}

}  // namespace rondo
