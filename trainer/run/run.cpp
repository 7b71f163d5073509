// Prepares a run. The checks that are cheap come first: device, model, data and compilation need
// neither weights nor other ranks. Ranks compare their collectives before further groups are
// created, since ranks with different graphs would wait for each other for ever.
#include "trainer/run/run.h"

#include <ATen/Context.h>
#include <fmt/format.h>
#include <torch/version.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/ops/segments.h"
#include "config/derived/paths.h"
#include "parallel/groups/comm_record.h"
#include "parallel/groups/nccl.h"
#include "support/crash_report.h"
#include "support/error.h"
#include "support/files/input_file.h"
#include "support/log.h"
#include "support/text/size_text.h"
#include "support/version.h"
#include "trainer/run/compare_ranks.h"
#include "trainer/step/from_config.h"
#include "trainer/step/functions/placement.h"

namespace rondo {
namespace {

constexpr std::chrono::seconds kReadPatience{60};  // for retries on a failing disk or file server

// A rank that makes no progress reports it before the collectives of other ranks time out.
StepWatch::Patience patience_of(const Comm& comm) {
  const std::chrono::milliseconds limit(800 * comm.train_timeout_seconds);
  return {limit, std::chrono::seconds(comm.init_timeout_seconds),
          std::min<std::chrono::milliseconds>(std::chrono::seconds(1), limit / 8)};
}

StepProgram compile_program(const Run& run, const std::filesystem::path& graph_folder) {
  return compile_step(run.config, run.layout, run.pipeline, run.environment.rank, run.model,
                      compile_request(run.config, run.device.type(), graph_folder, run.matmuls));
}

// Drops the repeat of steps on all ranks if it does not fit on any of them.
void agree_on_repeats(Run& run, const Telemetry& telemetry) {
  StepProgram& program = *run.program;
  if (program.repeat.empty()) return;
  const bool fits = program.repeat_fits(run.device.tensor_bytes);
  if (run.groups->maximum({fits ? 0 : 1})[0] == 0) return;
  telemetry.warn(fmt::format(
      "a step whose experts overflow is skipped: to repeat it with room for all rows, a rank would need "
      "{:.1f} GiB, and has {:.1f}; parallelism.expert_overflow = \"drop\" trains on without such rows",
      static_cast<double>(planned_memory(program).total_bytes()) / (1 << 30),
      static_cast<double>(run.device.tensor_bytes) / (1 << 30)));
  program.drop_repeat();
}

// Returns the three largest parts: "optimizer 59.9 GiB, parameters 29.9 GiB, head 4.0 GiB".
std::string largest_parts(const PlannedMemory& memory) {
  std::vector<std::pair<std::int64_t, std::string_view>> parts;
  for (std::size_t i = 0; i < memory.input_bytes.size(); ++i)
    parts.emplace_back(memory.input_bytes[i], ir::input_category_name(static_cast<ir::InputKind>(i)));
  for (std::size_t i = 0; i < memory.report.peak_bytes.size(); ++i)
    parts.emplace_back(memory.report.peak_bytes[i], ir::category_name(static_cast<ir::StorageCategory>(i)));
  std::sort(parts.rbegin(), parts.rend());
  std::string text;
  for (std::size_t i = 0; i < 3; ++i)
    text += fmt::format("{}{} {}", i == 0 ? "" : ", ", parts[i].second, size_text(parts[i].first));
  return text;
}

void refuse_excess(const Run& run, const Telemetry& telemetry) {
  const PlannedMemory memory = planned_memory(*run.program);
  const MemoryRoom& room = run.device.room;
  if (room.bytes == 0 || memory.total_bytes() <= room.bytes) return;
  const std::string excess =
      fmt::format("a step needs {} of a rank's memory, more than the {} {}: {}",
                  size_text(memory.total_bytes()), size_text(room.bytes), room.where, largest_parts(memory));
  if (run.config.debug.exceed_memory) return telemetry.warn(excess + " (debug.exceed_memory)");
  const bool activations = memory.total_bytes() - memory.arena_bytes <= room.bytes;
  throw Error(ExitCode::resources,
              fmt::format("{}. {}; `rondo plan` searches for ways to fit, and debug.exceed_memory = true "
                          "starts all the same",
                          excess,
                          activations ? "Lower training.local_batch_size or training.seq_len, or set "
                                        "activation_checkpoint.mode = \"full\""
                                      : "The state alone needs more ranks "
                                        "(parallelism.data_parallel_shard_degree), more memory or a smaller "
                                        "model"));
}

}  // namespace

Run::Run(const JobConfig& config, const RankEnvironment& environment)
    : config(config),
      environment(environment),
      layout(resolve_layout(config, environment.world_size)),
      pipeline(pipeline_layout(config, layout)),
      matmuls(matmul_table(config)) {}

bool Run::validates(std::int64_t step) const {
  return config.validation.enable && (step == 1 || step == last_step() || step % config.validation.freq == 0);
}

std::vector<std::string> Run::settings() const {
  std::vector<std::string> more = {
      fmt::format("data (documents and tokenizer) = {:016x}", data->state().fingerprint),
      fmt::format("data (content) = {:016x}", *data->state().content)};
  if (validation_data) {
    const DataState state = validation_data->state();
    more.push_back(fmt::format("validation data = {:016x}", state.fingerprint));
    more.push_back(fmt::format("validation data (content) = {:016x}", *state.content));
  }
  // Ranks write one checkpoint. Without this line a difference would show at the first save only.
  if (config.checkpoint.enable)
    more.push_back("checkpoint folder = " +
                   std::filesystem::weakly_canonical(checkpoint_root(config)).string());
  if (pipeline) more.push_back("pipeline (stages and schedule) = " + fingerprint(*pipeline));
  if (matmuls) more.push_back("matmul algorithms = " + fingerprint(*matmuls));
  more.push_back(fmt::format("rondo = {} {}", version(), commit()));
  more.push_back("LibTorch = " TORCH_VERSION);
  return settings_to_compare(config, more);
}

RunCosts Run::costs() const {
  return {.parameters = parameter_count(*model),
          .flops_per_token = model->flops_per_token(config.training.seq_len),
          .tokens_per_step = layout.global_batch_size * config.training.seq_len / layout.mesh.world_size(),
          .mesh = layout.mesh,
          .device = device};
}

void open(Run& run) {
  const JobConfig& config = run.config;
  // Selects deterministic kernels, but does not fill new memory: a plan may share it with
  // an operand.
  at::globalContext().setDeterministicAlgorithms(config.debug.deterministic, /*warn_only=*/false);
  at::globalContext().setDeterministicFillUninitializedMemory(false);
  run.device = take_device(config, run.environment);
  run.model = make_decoder(config.model.name, config.model.sizes);
  // Shorter than the timeout of the ranks that wait for this one.
  set_read_patience(std::min(kReadPatience, std::chrono::seconds(config.comm.train_timeout_seconds) / 2));
  run.tokenizer = load_tokenizer(tokenizer_name(config), config.training.special_tokens);
  if (const std::string notice = tokenizer_notice(tokenizer_name(config));
      !notice.empty() && run.environment.rank == 0)
    log_info(notice);
  check_vocabulary(*run.tokenizer, run.model->vocabulary());
  run.data = std::make_unique<DataLoader>(training_data(config, run.layout, run.environment), *run.tokenizer);
  if (config.validation.enable)
    run.validation_data =
        std::make_unique<DataLoader>(validation_data(config, run.layout, run.environment), *run.tokenizer);
}

void compile(Run& run, const Telemetry& telemetry) {
  if (run.matmuls) check_measured_on(*run.matmuls, run.config.compile.matmul_algorithms, run.device.name);
  telemetry(&Report::log_experts, *run.model, step_options(run.config, run.layout, run.environment.rank));
  if (!InputSharding(run.layout.mesh).follows_layout())
    telemetry.warn(
        "the degrees of the experts and of the other layers do not nest, so the layout of values is not "
        "checked at each start; `rondo prove` checks it");
  run.program = std::make_unique<StepProgram>(compile_program(
      run, telemetry.is_writer() ? telemetry.report()->folder().graph_folder() : std::filesystem::path()));
  telemetry(&Report::log_compiled, *run.program);
}

void join_ranks(Run& run, bool finished) {
  run.groups = std::make_unique<ProcessGroups>(run.environment, run.layout.mesh.group(kAllAxes).name,
                                               std::chrono::seconds(run.config.comm.init_timeout_seconds),
                                               run.device.device);
  compare_finished(finished, checkpoint_root(run.config).string(), *run.groups);
}

void init_process_groups(Run& run, const Telemetry& telemetry) {
  const JobConfig& config = run.config;
  const int rank = run.environment.rank;
  const std::vector<const CompiledStep*> steps = run.program->all();
  if (run.device.device.is_cuda() && run.environment.world_size > 1) {
    std::size_t groups = 0;
    for (const CompiledStep* step : steps)
      groups = std::max(groups, ir::most_groups_of_a_segment(step->graph()));
    const std::string settings = prepare_nccl(groups);
    if (!settings.empty()) telemetry.info("recorded collectives: " + settings);
    for (const std::string& slow : slow_settings()) telemetry.warn(slow);
  }
  comm_record::keep(static_cast<std::size_t>(config.comm.trace_buf_size));
  join_ranks(run, /*finished=*/false);
  std::vector<std::string> settings = run.settings();
  if (run.device.device.is_cuda())
    for (const std::string& setting : nccl_settings()) settings.push_back(setting);
  compare_settings(settings, *run.groups);
  agree_on_repeats(run, telemetry);
  refuse_excess(run, telemetry);
  compare_collectives(run.program->all(), run.layout.mesh, *run.groups);
  if (run.layout.mesh.degree(Axis::tp) > 1) {
    const auto nodes = run.groups->all_gather(node_of(run.environment));
    if (const std::string why = tensor_parallelism_across_nodes(nodes, run.layout.mesh); !why.empty())
      telemetry.warn(why);
  }
  run.groups->add(process_groups(config, run.layout, run.pipeline, rank));
  name_crash_file(run);
  // Rank 0 has the folder from here on. A second compilation is cheaper than keeping the texts of
  // all graphs.
  if (config.compile.dump_ranks == DumpRanks::all && rank != 0 && config.compile.dump != GraphDump::none)
    compile_program(run, RunFolder::graph_folder_of(config.job.dump_folder, rank));
}

void init_state(Run& run, std::function<void(const std::string&)> on_hang) {
  const JobConfig& config = run.config;
  std::vector<const StepFunction*> functions;
  for (const CompiledStep* step : run.program->all()) functions.push_back(&step->function());
  run.state = std::make_unique<TrainState>(
      *run.model, functions, static_cast<std::uint64_t>(config.debug.seed), run.layout.mesh,
      run.environment.rank, table_length(step_options(config, run.layout, run.environment.rank)),
      run.device.device);
  run.watch.emplace(patience_of(config.comm), std::move(on_hang));
  run.runner = std::make_unique<StepRunner>(
      *run.program, *run.state, share_resources(run.program->all(), run.device.device, &*run.watch));
}

void name_crash_file(const Run& run) {
  const std::filesystem::path folder = std::filesystem::absolute(run.config.job.dump_folder);
  set_crash_file((folder / fmt::format("rank_{}.crash.txt", run.environment.rank)).string());
}

}  // namespace rondo
