// Runs the code of a real start (layout, functions, trace, passes, memory plan) and stops where tensors would
// be needed, so plan and run decide alike. Inputs are shared by the functions, and their bytes count once;
// arenas take turns, and the largest counts. Only if the job does not fit are alternatives planned, one by
// one up to the first that fits. One that breaks a rule of the configuration is left out.
#include "trainer/plan/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>

#include "compiler/report/memory_timeline.h"
#include "models/parts/decoder.h"
#include "support/error.h"
#include "trainer/observe/metrics/flops.h"
#include "trainer/observe/metrics/machine.h"
#include "trainer/plan/plan_alternatives.h"
#include "trainer/step/from_config.h"

namespace rondo {
namespace {

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// Every plan is of a replay: what the other executors take is not decided in advance.
JobConfig replayed(JobConfig config, std::vector<std::string>& notes) {
  if (!config.compile.enable)
    notes.push_back(
        "compile.enable = false: this is the plan of the recorded step; the eager run takes memory as it "
        "goes");
  else if (config.compile.executor != "replay")
    notes.push_back("compile.executor = \"" + config.compile.executor +
                    "\": this is the plan of \"replay\"; an interpreter takes memory as it goes");
  config.compile.enable = true;
  config.compile.executor = "replay";
  return config;
}

// As the run decides it.
void plan_repeat(CompiledFunctions& compiled, JobPlan& plan) {
  if (!compiled.repeat) return;
  const double gib = static_cast<double>(planned_memory(compiled.all()).total_bytes()) / (1 << 30);
  if (compiled.repeat_fits(plan.usable_bytes)) {
    plan.notes.push_back(fmt::format(
        "a step whose experts overflow is repeated with room for all rows; {:.3f} GiB are enough for that",
        gib));
    return;
  }
  plan.notes.push_back(fmt::format(
      "a step whose experts overflow is skipped: to repeat it with room for all rows would take {:.3f} GiB",
      gib));
  compiled.repeat.reset();
}

ir::StepEstimate estimate(const CompiledFunctions& functions, const Layout& layout,
                          const ir::DeviceModel& device, const std::optional<ExpertRows>& rows) {
  const double computed = rows ? static_cast<double>(rows->balanced) / static_cast<double>(rows->room) : 1.0;
  ir::GroupShapes groups;
  for (const Axes axes : kGroups)
    if (const AxisGroup group = layout.mesh.group(axes); group.ranks > 1)
      groups[group.name] = groups[group.name + kGatherGroupSuffix] = {group.ranks, group.stride};
  const auto of = [&](const CompiledStep& step) {
    return ir::simulate(step.graph(), device, groups, computed);
  };
  if (functions.train_step) return of(*functions.train_step);
  ir::StepEstimate step = of(*functions.update);
  step.add(of(*functions.accumulate), static_cast<double>(layout.microbatches));
  return step;
}

std::int64_t memory_of(const ir::DeviceModel& device) {
  return device.memory_bytes > 0 ? device.memory_bytes : read_machine().memory_bytes;
}

// Of the function with the largest arena.
void write_timeline(const std::vector<const CompiledStep*>& steps, const ir::MemoryReport& report,
                    const std::filesystem::path& path) {
  const auto step = std::find_if(steps.begin(), steps.end(),
                                 [&](const CompiledStep* s) { return s->graph().name == report.graph; });
  RONDO_ASSERT(step != steps.end(), "no step is called " + report.graph);
  std::ofstream file(path);
  if (!(file << ir::memory_timeline((*step)->graph(), report)) || !file.flush())
    throw Error(ExitCode::resources,
                fmt::format("plan: cannot write {}: {}; give --timeline the path of a file that "
                            "may be written",
                            path.string(), std::strerror(errno)));
}

JobPlan plan_one(const JobConfig& asked, std::int64_t world, std::int64_t rank, const ir::DeviceModel& device,
                 const std::filesystem::path& timeline = {}) {
  JobPlan plan;
  const JobConfig config = replayed(asked, plan.notes);
  auto started = Clock::now();
  plan.layout = resolve_layout(config, world);
  const std::shared_ptr<const Decoder> model = make_decoder(config.model.name, config.model.sizes);
  const TrainStepOptions options = step_options(config, plan.layout, rank);
  const TrainStepFunctions step = make_train_step(model, options);
  plan.expert_rows = expert_rows(*model, options);
  plan.model = config.model.name;
  plan.flavor = config.model.flavor;
  plan.parameters = parameter_count(*model);
  plan.flops_per_token = static_cast<double>(model->flops_per_token(config.training.seq_len));
  plan.rank = rank;
  plan.memory_policy = memory_policy(config);
  plan.tokens_per_step = plan.layout.global_batch_size * config.training.seq_len;
  plan.device = &device;
  plan.usable_bytes = memory_of(device) - device.reserve_bytes;
  plan.times.model_ms = ms_since(started);

  const CompileRequest request = compile_request(config, device.is_gpu ? "cuda" : "cpu", {});
  CompiledFunctions compiled(step, request, config.validation.enable);
  plan_repeat(compiled, plan);
  for (const CompiledStep* function : compiled.all()) {
    plan.times.trace_ms += function->report().trace_ms;
    plan.times.passes_ms += function->report().passes_ms;
    plan.times.plan_ms += function->report().plan_ms;
    plan.times.nodes += function->report().nodes;
    for (const ir::PassReport& pass : function->report().pipeline.passes)
      for (const std::string& note : pass.notes)
        plan.notes.push_back(function->function().name + ": " + note);
  }
  started = Clock::now();
  plan.memory = planned_memory(compiled.all());
  plan.step = estimate(compiled, plan.layout, device, plan.expert_rows);
  plan.times.plan_ms += ms_since(started);
  if (!timeline.empty()) write_timeline(compiled.all(), plan.memory.report, timeline);
  return plan;
}

}  // namespace

JobPlan plan_job(const JobConfig& config, std::int64_t world, std::int64_t rank,
                 const ir::DeviceModel& device, const std::filesystem::path& timeline) {
  JobPlan plan = plan_one(config, world, rank, device, timeline);
  if (plan.fits()) return plan;
  for (const Variant& variant : variants_that_take_less(config, plan.layout)) {
    try {
      const JobPlan other = plan_one(variant.config, variant.world, 0, device);
      plan.alternatives.push_back({variant.what, variant.flags, other.memory.total_bytes(), other.fits()});
    } catch (const Error& error) {
      if (error.code() != ExitCode::config) throw;  // a batch that cannot be divided so: no alternative
    }
    if (!plan.alternatives.empty() && plan.alternatives.back().fits) break;
  }
  return plan;
}

double JobPlan::mfu_percent() const {
  return *rondo::mfu_percent(tokens_per_s_per_rank(), flops_per_token, device->peak_16bit_flops_per_s);
}

double JobPlan::most_tokens_per_s_per_rank() const {
  const double dense_s = step.of(ir::CostKind::matmul).seconds + step.of(ir::CostKind::attention).seconds;
  return tokens_per_s_per_rank() * step.step_s / std::max({dense_s, step.node_links_s, step.network_s});
}

double JobPlan::most_mfu_percent() const {
  return *rondo::mfu_percent(most_tokens_per_s_per_rank(), flops_per_token, device->peak_16bit_flops_per_s);
}

std::string JobPlan::bound() const {
  using ir::CostKind;
  const std::vector<std::pair<double, const char*>> parts = {
      {step.of(CostKind::matmul).seconds, "matrix products"},
      {step.of(CostKind::attention).seconds, "attention"},
      {step.of(CostKind::memory).seconds, "memory traffic of the other ops"},
      {step.of(CostKind::launch).seconds, "launches of small ops"},
      {step.exposed_s, "communication that nothing hides"},
      {step.transfers.exposed_s, "offloading that nothing hides"},
  };
  const auto most = *std::max_element(parts.begin(), parts.end());
  return fmt::format("{}, {:.0f} % of the step", most.second, 100 * most.first / step.step_s);
}

}  // namespace rondo
