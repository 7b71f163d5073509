// Two clocks run: one per step for metrics.jsonl, one per line for console and TensorBoard. Both
// stop while the run validates or saves, so that speeds are those of training alone. A step that is
// not finite is printed immediately. A line of metrics.jsonl waits for the validation after its
// step. The peak of memory is reset each step, and a console line shows the largest of its steps.
#include "trainer/observe/report.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/version.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "config/derived/float8.h"
#include "config/derived/optimizer.h"
#include "config/derived/paths.h"
#include "config/dump.h"
#include "runs/metrics/flops.h"
#include "support/log.h"
#include "support/machine/instructions.h"
#include "support/machine/machine.h"
#include "support/stopwatch.h"
#include "support/text/size_text.h"
#include "support/version.h"
#include "trainer/device/device_info.h"
#include "trainer/observe/memory_json.h"
#include "trainer/step/expert_rows.h"

namespace rondo {
namespace {

constexpr double kGib = 1024.0 * 1024.0 * 1024.0;

// Tells the launcher the run folder, where it records how a rank ended that could not.
void tell_launcher_folder(const std::filesystem::path& folder) {
  if (const char* file = std::getenv("RONDO_RUN_FOLDER_FILE"))
    std::ofstream(file) << "run_folder=" << std::filesystem::absolute(folder).string() << "\n";
}

}  // namespace

Report::Report(const JobConfig& config, std::vector<std::string> command_line, int ranks)
    : config_(config),
      command_line_(std::move(command_line)),
      ranks_(ranks),
      folder_(config.job.dump_folder),
      started_s_(now_s()) {}

Report::~Report() { keep_log(""); }

void Report::begin(const std::optional<Resumed>& resumed) {
  folder_.begin(resumed);
  if (const std::string error = keep_log(folder_.console_log()); !error.empty())
    log_warning(fmt::format("{} cannot be written ({}); the log is only on the console",
                            folder_.console_log().string(), error));
  tell_launcher_folder(folder_.path());
  folder_.write_config(to_annotated_toml(config_));
  folder_.write_environment({command_line_,
                             {{"rondo", version()}, {"commit", commit()}, {"torch", TORCH_VERSION}},
                             {{"intra_op", at::get_num_threads()}, {"world_size", ranks_}}});
  nlohmann::ordered_json start = {{"begun", folder_.begun()},
                                  {"fingerprint", fingerprint(config_)},
                                  {"ranks", ranks_},
                                  {"seconds", now_s() - started_s_}};
  if (!folder_.ended_before().empty()) start["ended_before"] = folder_.ended_before();
  if (!folder_.earlier_end().empty()) {
    log_line("the previous run in this folder " + folder_.earlier_end());
    start["run_before"] = folder_.earlier_end();
  }
  folder_.event("start", start);
  if (folder_.previous()) log_line("its files were moved to " + folder_.previous()->string());
  if (folder_.brought_back())
    log_line("the files of the resumed run were restored from " + folder_.brought_back()->string());
  for (const std::string& note : config_.notes) log_warning(note);
  outputs_.emplace(config_.metrics, folder_);
  if (config_.job.print_config) log_info("configuration:\n" + to_toml(config_));
}

void Report::log_line(std::string_view line) const {
  if (config_.metrics.verbosity != Verbosity::quiet) log_info(line);
}

void Report::log_detail(std::string_view line) const {
  if (config_.metrics.verbosity == Verbosity::detailed) log_info(line);
}

void Report::log_training(const RunCosts& costs) {
  costs_ = costs;
  const int threads = at::get_num_threads();
  const std::int64_t ranks = costs.mesh.world_size(), tokens = costs.tokens_per_step * ranks;
  const Model& model = config_.model;  // without a flavor: of own sizes
  log_line(fmt::format("model: {}{}{}, {} parameters, {:.3g} GFLOP a token", model.name,
                       model.flavor.empty() ? "" : " ", model.flavor, count_text(costs.parameters),
                       static_cast<double>(costs.flops_per_token) * 1e-9));
  log_line(fmt::format("layout: {} rank{}{}, {} thread{} each; {} tokens a step in {} sequences", ranks,
                       ranks == 1 ? "" : "s", ranks == 1 ? "" : " (" + costs.mesh.text() + ")", threads,
                       threads == 1 ? "" : "s", count_text(tokens), tokens / config_.training.seq_len));
  for (const std::string& float8 : {float8_summary(config_), float8_expert_summary(config_)})
    if (!float8.empty()) log_line(float8);
  for (const std::string& warning : float8_warnings(config_)) log_warning(warning);
  log_line(run_folder_line(config_.checkpoint, folder_.path().string()));
  folder_.event("model", {{"name", config_.model.name},
                          {"flavor", config_.model.flavor},
                          {"parameters", costs.parameters},
                          {"flops_per_token", costs.flops_per_token},
                          {"layout", costs.mesh.text()},
                          {"tokens_per_step", tokens},
                          {"float8_products", float8_products(config_)}});
  const ComputeDevice& d = costs.device;
  if (const std::string peak = peak_line(config_, d.peak_flops, d.name); !peak.empty()) log_line(peak);
  if (d.device.is_cpu()) {
    const Machine machine = read_machine();
    log_line(fmt::format("device: {}, {}", machine.cpu_model.empty() ? "unknown CPU" : machine.cpu_model,
                         instructions_text(machine.cpu_features)));
    return;
  }
  log_line(
      fmt::format("device: {} on each rank, {}, {}", d.name, size_text(d.memory_bytes), cuda_build_info()));
  folder_.event("device", {{"name", d.name}, {"memory_bytes", d.memory_bytes}, {"build", cuda_build_info()}});
}

void Report::log_data(const DataSummary& training, const DataSummary* validation, std::int64_t step,
                      std::int64_t tokens_seen) {
  const std::int64_t each = costs_.tokens_per_step * costs_.mesh.world_size();
  const std::int64_t tokens = tokens_seen + (config_.training.steps - step) * each;
  for (const std::string& line : data_lines(config_, training, validation, {tokens, each})) log_line(line);
  for (const std::string& note : training.notes) log_line("data: " + note);
  for (const std::string& warning : training.warnings) log_warning("data: " + warning);
  if (validation != nullptr && !validation_path(config_).empty()) {  // else it has the same files
    for (const std::string& note : validation->notes) log_line("validation data: " + note);
    for (const std::string& warning : validation->warnings) log_warning("validation data: " + warning);
  }
  folder_.event("data", {{"documents", training.documents},
                         {"tokens", training.tokens},
                         {"held_out_documents", validation ? validation->documents : 0},
                         {"held_out_tokens", validation ? validation->tokens : 0},
                         {"tokens_of_run", tokens}});
}

void Report::log_experts(const Decoder& model, const TrainStepOptions& options) {
  if (!model.routers().empty()) outputs_->add_experts(model.routers());
  const std::optional<ExpertRows> rows = expert_rows(model, options);
  if (!rows) return;
  const ExpertParallelOptions& e = options.sharding.experts;
  const bool fixed = e.exchange == ExpertExchange::fixed_size;
  log_line(fmt::format(
      "experts: {} on {} ranks; {}; a rank has room for {} rows of a layer, {:.1f} MiB, where balanced "
      "routers send {}{}",
      model.routed_tokens()->experts, e.group.ranks,
      fixed ? "\"static\" gathers the tokens of all ranks" : "\"standard\" sends each row to one rank",
      rows->room, static_cast<double>(rows->bytes) / (1 << 20), rows->balanced,
      e.is_bounded() ? fmt::format("; for a step with more, parallelism.expert_overflow = \"{}\"",
                                   name_of(config_.parallelism.expert_overflow))
                     : "; no step has more"));
  if (e.is_bounded()) line_overflow_.emplace();
  folder_.event("experts", {{"ranks", e.group.ranks}, {"rows", rows->room}, {"bytes", rows->bytes}});
}

void Report::log_compiled(const StepProgram& functions) {
  const PlannedMemory planned = planned_memory(functions);
  double ms = 0;
  std::vector<std::string> graphs;
  const std::vector<const CompiledStep*> steps = functions.all();
  for (const CompiledStep* step : steps) {
    const CompileReport& r = step->report();
    if (r.traced_nodes == 0) continue;
    log_function(*step);
    ms += r.trace_ms + r.passes_ms + r.plan_ms;
    graphs.push_back(fmt::format("{} {} nodes", step->function().name, r.nodes));
  }
  if (graphs.empty()) return log_line("compiled: nothing, the step runs eagerly (compile.enable = false)");
  log_line(fmt::format("compiled: {} in {:.0f} ms, for the executor \"{}\"", fmt::join(graphs, ", "), ms,
                       name_of(config_.compile.executor)));
  log_line(fmt::format("memory: {} planned for a rank, {} {}", planned.text(),
                       size_text(costs_.device.room.bytes), costs_.device.room.where));
  if (costs_.mesh.degree(kStageAxes) > 1 && steps[0]->graph().mesh.axes.empty())
    log_warning(
        "collectives are not checked by types of sharding: the ranks of experts do not nest with those of "
        "the other layers (docs/proof.md); prove this layout with `rondo prove`");
}

void Report::log_function(const CompiledStep& step) {
  const CompileReport& r = step.report();
  const std::string& name = step.function().name;
  log_detail(fmt::format("{}: traced {} nodes in {:.1f} ms; {} nodes after passes in {:.1f} ms", name,
                         r.traced_nodes, r.trace_ms, r.nodes, r.passes_ms));
  log_detail(fmt::format("{}: {}", name, r.segments_in_words));
  for (const std::string& note : r.notes) log_detail(name + ": " + note);
  for (const std::string& note : r.pipeline.notes) log_detail(name + ": " + note);
  nlohmann::ordered_json passes;
  for (const ir::PassReport& pass : r.pipeline.passes) {
    for (const std::string& note : pass.notes) log_detail(name + ": " + note);
    passes[std::string(pass.name)] = {{"ms", pass.ms},
                                      {"verify_ms", pass.verify_ms},
                                      {"nodes_before", pass.nodes_before},
                                      {"nodes", pass.nodes_after},
                                      {"ops", pass.op_difference},
                                      {"notes", pass.notes}};
  }
  for (const std::string& line : ir::print_lines(r.memory)) log_detail(line);
  folder_.event("compiled", {{"function", name},
                             {"trace_ms", r.trace_ms},
                             {"passes", passes},
                             {"segments", r.segments},
                             {"memory", memory_json(r.memory)}});
}

void Report::replaying(const ReplayStats& f) {
  const auto mib = [](std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); };
  log_detail(
      fmt::format("replay: {} ops a step, {} views created once, {:.1f} MiB planned, {:.1f} MiB{} from the "
                  "heap, {} results and {} bytes copied a step",
                  f.instructions, f.views, mib(f.arena_bytes), mib(f.heap_bytes),
                  f.largest_workspace_op.empty() ? "" : " for " + f.largest_workspace_op, f.copied_results,
                  f.batch_bytes + f.state_bytes));
  if (f.segments > 0)
    log_detail(fmt::format(
        "recorded: {} segment{} of {} ops, {} ops called by the host; {} bytes copied a step; first step "
        "{:.0f} ms, recording {:.0f} ms; {:.1f} MiB planned, {:.1f} MiB in the pool, {:.1f} MiB more of the "
        "device in use than before the first step",
        f.segments, f.segments == 1 ? "" : "s", f.recorded_ops, f.instructions - f.recorded_ops,
        f.batch_bytes, f.warm_up_ms, f.capture_ms, mib(f.arena_bytes), mib(f.pool_bytes),
        mib(f.free_bytes_before - f.free_bytes_after)));
  folder_.event("replaying", {{"ops", f.instructions},
                              {"segments", f.segments},
                              {"recorded_ops", f.recorded_ops},
                              {"arena_bytes", f.arena_bytes},
                              {"pool_bytes", f.pool_bytes},
                              {"heap_bytes", f.heap_bytes},
                              {"largest_workspace_op", f.largest_workspace_op},
                              {"batch_bytes", f.batch_bytes},
                              {"copied_bytes", f.batch_bytes + f.state_bytes},
                              {"warm_up_ms", f.warm_up_ms},
                              {"capture_ms", f.capture_ms},
                              {"free_bytes_before", f.free_bytes_before},
                              {"free_bytes_after", f.free_bytes_after}});
}

void Report::resumed(std::int64_t step, const std::filesystem::path& from, double seconds) {
  const EarlierSteps earlier = outputs_->resume_after(step);
  done_ = step;
  const std::string lost =
      earlier.last > step ? fmt::format("; steps {} to {} are computed again", step + 1, earlier.last) : "";
  log_info(fmt::format("resumed from {}: {} of {} steps are done{} (read in {:.2f} s)", from.string(), step,
                       config_.training.steps, lost, seconds));
  if (earlier.last_kept < step)
    log_warning(fmt::format("{} lacks steps {} to {}: they were written elsewhere",
                            outputs_->steps_file().string(), earlier.last_kept + 1, step));
  folder_.event(
      "resumed",
      {{"step", step}, {"from", from.string()}, {"seconds", seconds}, {"last_step_before", earlier.last}});
}

void Report::log_schedule(const ScheduleStart& start, const std::string& weight_decay) {
  const std::size_t by_muon = matrices_of_muon(config_.optimizer, config_.model).size();
  log_line(learning_rate_line(config_, start) + "; weight decay: " + weight_decay +
           (by_muon == 0 ? "" : fmt::format("; Muon on {} tensors, AdamW on the others", by_muon)));
  for (const std::string& warning : learning_rate_warnings(config_, start)) log_warning(warning);
}

void Report::training_starts() {
  outputs_->start_at(done_ + 1);
  folder_.event("training", {{"step", done_ + 1}, {"seconds", now_s() - started_s_}});
  each_step_.emplace(now_s());
  each_line_.emplace(now_s());
}

StepMetrics Report::measure(Throughput& clock) const {
  const Throughput::Reading reading = clock.read(now_s());
  StepMetrics m;
  m.tokens_per_s = reading.tokens_per_s;
  m.step_time_s = reading.step_time_s;
  m.data_wait_fraction = reading.data_wait_fraction;
  m.tflops = tflops(m.tokens_per_s, static_cast<double>(costs_.flops_per_token));
  m.mfu = mfu_percent(m.tokens_per_s, static_cast<double>(costs_.flops_per_token), costs_.device.peak_flops);
  return m;
}

void Report::step_done(const DoneStep& done, const StepResult& result) {
  for (auto* clock : {&each_step_, &each_line_})
    (*clock)->step_done(costs_.tokens_per_step, done.data_wait_s, now_s());
  const std::int64_t steps_left = config_.training.steps - done.step;
  const std::int64_t tokens_left = steps_left * costs_.tokens_per_step * costs_.mesh.world_size();
  StepMetrics m = measure(*each_step_);
  m.step = done.step;
  m.loss = result.loss;
  m.grad_norm = result.grad_norm;
  m.lr = done.learning_rate;
  m.memory_gib = static_cast<double>(costs_.device.peak_bytes()) / kGib;
  m.data_wait_s = done.data_wait_s;
  m.tokens_seen = done.tokens_seen;
  m.progress = static_cast<double>(done.tokens_seen) / static_cast<double>(done.tokens_seen + tokens_left);
  m.load_imbalance = result.load_imbalance;
  m.attention_imbalance = done.attention_imbalance;
  if (line_overflow_) {
    m.overflow = {std::lround(result.dropped_tokens), result.repeated, result.skipped};
    line_overflow_->add(*m.overflow);
  }
  m.state_hash = done.state_hash;
  costs_.device.reset_peak();
  held_ = m;
  if (!done.validates || !result.finite) write_held();
  line_peak_gib_ = std::max(line_peak_gib_, m.memory_gib);
  const bool shown = done.step == 1 || steps_left == 0 || done.step % config_.metrics.log_freq == 0;
  if (!shown && result.finite) return;
  outputs_->write_experts(done.step, result.tokens_per_expert);
  const StepMetrics interval = measure(*each_line_);
  m.tokens_per_s = interval.tokens_per_s;
  m.step_time_s = interval.step_time_s;
  m.tflops = interval.tflops;
  m.data_wait_fraction = interval.data_wait_fraction;
  m.memory_gib = std::exchange(line_peak_gib_, 0.0);
  if (line_overflow_) m.overflow = std::exchange(*line_overflow_, {});
  log_styled(console_line(m, {log_has_color(), each_line_->eta_s(steps_left)}));
  outputs_->write_line(m);
}

void Report::write_held() {
  folder_.write_warnings();
  if (held_) outputs_->write_step(*held_);
  held_.reset();
}

std::string Report::trouble() {
  const std::string why = outputs_->trouble();
  return why.empty() ? folder_.events().trouble() : why;
}

void Report::pause() {
  pause_began_s_ = now_s();
  for (auto* clock : {&each_step_, &each_line_}) (*clock)->pause(pause_began_s_);
}

void Report::go_on() {
  const double now = now_s();
  paused_s_ += now - pause_began_s_;
  for (auto* clock : {&each_step_, &each_line_}) (*clock)->resume(now);
}

void Report::validation_done(std::int64_t step, std::optional<double> loss, std::int64_t tokens) {
  go_on();
  if (held_) held_->validation_loss = loss;
  write_held();
  if (!loss) return;
  ValidationMetrics m{step, *loss, static_cast<double>(tokens) / std::max(now_s() - pause_began_s_, 1e-9),
                      static_cast<double>(costs_.device.peak_bytes()) / kGib};
  log_styled(console_line(m, {log_has_color()}));
  folder_.event("validation", {{"step", step}, {"loss", *loss}, {"seconds", now_s() - pause_began_s_}});
  outputs_->write_line(m);
}

void Report::ended(std::int64_t step, std::int64_t schedule_step, std::int64_t tokens_seen,
                   std::int64_t last_saved_step) {
  const bool finished = step >= config_.training.steps;
  if (finished) folder_.event("finished", {{"step", step}});
  const RunEnd end{step,      schedule_step,  tokens_seen, finished, now_s() - started_s_,
                   paused_s_, last_saved_step};
  RunLog log;
  try {
    // A run without steps left, whose earlier lines were lost, has no lines.
    if (std::filesystem::file_size(folder_.metrics_file()) > 0) log = read_run(folder_.path());
  } catch (const std::exception& error) {  // the run itself ended well
    log_warning(std::string("the summary lacks the earlier steps: ") + error.what());
  }
  for (const std::string& line : end_lines(config_, end, log)) log_line(line);
}

void Report::write_exit(const ExitRecord& record) {
  write_held();
  folder_.write_exit(record);
}

}  // namespace rondo
