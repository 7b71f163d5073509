// Runs the code of a real start (layout, functions, trace, passes, memory plan) up to the first
// tensor, so that plan and run make the same decisions. The functions share their inputs, whose
// bytes count once. Their arenas are alternatives, so only the largest counts.
#include "plan/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "compiler/plan/report/memory_timeline.h"
#include "config/derived/batch.h"
#include "config/derived/compile_options.h"
#include "config/derived/float8.h"
#include "models/parts/decoder.h"
#include "parallel/groups/comm_record.h"
#include "runs/metrics/flops.h"
#include "support/error.h"
#include "support/files/atomic_file.h"
#include "support/machine/memory_room.h"
#include "support/printable.h"
#include "support/stopwatch.h"
#include "trainer/step/float_dtypes.h"
#include "trainer/step/from_config.h"

namespace rondo {
namespace {

// Changes the configuration to replay, which plans assume, and notes the change.
JobConfig replayed(JobConfig config, std::vector<std::string>& notes) {
  if (!config.compile.enable)
    notes.push_back(
        "compile.enable = false: this is the plan of the recorded step; an eager run allocates as it goes");
  else if (config.compile.executor != ExecutorKind::replay)
    notes.push_back(fmt::format(
        "compile.executor = \"{}\": this is the plan of \"replay\"; an interpreter allocates as it goes",
        name_of(config.compile.executor)));
  config.compile.enable = true;
  config.compile.executor = ExecutorKind::replay;
  return config;
}

// Decides as the run does whether a step is repeated if experts overflow.
void plan_repeat(StepProgram& compiled, JobPlan& plan) {
  if (compiled.repeat.empty()) return;
  const double gib = static_cast<double>(planned_memory(compiled).total_bytes()) / (1 << 30);
  if (compiled.repeat_fits(plan.usable_bytes)) {
    plan.notes.push_back(fmt::format(
        "a step whose experts overflow is repeated with capacity for all rows; this needs {:.3f} GiB", gib));
    return;
  }
  plan.notes.push_back(fmt::format(
      "a step whose experts overflow is skipped: repeating it with capacity for all rows needs {:.3f} GiB",
      gib));
  compiled.drop_repeat();
}

// Returns the measured times, or nothing and a note if the table is from another device.
ir::ProductSeconds measured_products(const std::optional<MatmulTable>& table, const ir::DeviceModel& device,
                                     std::vector<std::string>& notes) {
  if (!table) return {};
  const ir::DeviceModel* const measured_on = ir::find_device_model(table->device);
  if (measured_on != nullptr && measured_on->name == device.name) return table->seconds();
  notes.push_back(
      fmt::format("compile.matmul_algorithms was measured on \"{}\"; its times do not apply to {}",
                  printable(table->device, 200), device.name));
  return {};
}

EstimateStep estimate_on(const ir::DeviceModel& device, const Layout& layout,
                         const std::optional<ExpertRows>& rows, ir::ProductSeconds products) {
  const double computed = rows ? static_cast<double>(rows->balanced) / static_cast<double>(rows->room) : 1.0;
  ir::GroupShapes groups;
  for (const Axes axes : kGroups)
    if (const AxisGroup group = layout.mesh.group(axes); group.ranks > 1)
      groups[group.name] = groups[group.name + kGatherGroupSuffix] = {group.ranks, group.stride};
  return [=, &device, products = std::move(products)](const CompiledStep& step) {
    return ir::simulate(step.graph(), device, groups, computed, products);
  };
}

// Sums over the calls of a step; each function is estimated once.
ir::StepEstimate estimate(const StepProgram& program, const EstimateStep& of) {
  std::map<const CompiledStep*, std::int64_t> runs;
  for (const Call& call : program.step) ++runs[call.function];
  ir::StepEstimate step;
  for (const CompiledStep& function : program.functions)
    if (const auto match = runs.find(&function); match != runs.end())
      step.add(of(function), static_cast<double>(match->second));
  return step;
}

// Plans time and memory of a pipeline, and selects its rank.
void plan_stages(PipelineRanks& ranks, const JobConfig& config, bool rank_is_given,
                 const EstimateStep& estimate, JobPlan& plan) {
  const Parallelism& p = config.parallelism;
  const std::string& file = p.pipeline_parallel_schedule_csv;
  const std::vector<std::int64_t> places = plan.layout.mesh.members(plan.rank, Axis::pp);
  const auto place = [&](std::int64_t rank) { return places[static_cast<std::size_t>(rank)]; };
  const std::string schedule = !p.has_pipeline() ? "overlapped microbatches"
                               : file.empty()    ? p.pipeline_parallel_schedule
                                                 : file;
  plan.pipeline =
      plan_pipeline(ranks, schedule, estimate, [&](double bytes, std::int64_t from, std::int64_t to) {
        return ir::message_seconds(bytes, place(from), place(to), *plan.device);
      });
  std::size_t shown = plan.pipeline->busiest();
  if (rank_is_given)
    shown = static_cast<std::size_t>(plan.layout.mesh.coordinate(plan.rank, Axis::pp));
  else
    plan.rank = places[plan.pipeline->fullest()];
  plan.step = plan.pipeline->computes[shown];
  plan.bubble_s = plan.pipeline->bubble_s(shown);
}

void add_times(const StepProgram& functions, PlanTimes& times) {
  for (const CompiledStep* function : functions.all()) {
    times.trace_ms += function->report().trace_ms;
    times.passes_ms += function->report().passes_ms;
    times.plan_ms += function->report().plan_ms;
    times.nodes += function->report().nodes;
  }
}

std::int64_t memory_of(const ir::DeviceModel& device) {
  return device.memory_bytes > 0 ? device.memory_bytes : memory_room(1).bytes;
}

// Writes the memory timeline of the function with the largest arena.
void write_timeline(const std::vector<const CompiledStep*>& steps, const ir::MemoryReport& report,
                    const std::filesystem::path& path) {
  const auto step = std::find_if(steps.begin(), steps.end(),
                                 [&](const CompiledStep* s) { return s->graph().name == report.graph; });
  RONDO_ASSERT(step != steps.end(), "no step has the name " + report.graph);
  replace_file(path, ir::memory_timeline((*step)->graph(), report), FileUse::output);
}

// Bytes of parameters and optimizer moments as they are saved, without the padding of shards.
CheckpointBytes checkpoint_bytes(const JobConfig& config, const JobPlan& plan) {
  const auto bytes_of = [&](Precision dtype) {
    return plan.parameters * static_cast<std::int64_t>(c10::elementSize(float_named(dtype)));
  };
  const auto of = [&](ir::InputKind kind) {
    const auto k = static_cast<std::size_t>(kind);
    return plan.memory.input_bytes[k] + plan.memory.host_input_bytes[k];
  };
  const std::int64_t parameters = of(ir::InputKind::parameter);
  const std::int64_t moments = (of(ir::InputKind::optimizer) + parameters / 2) / parameters;
  return {bytes_of(config.training.dtype) * (1 + moments), bytes_of(config.checkpoint.export_dtype)};
}

// Throws if the device does not have the products that a converter needs.
void require_products(const ir::DeviceModel& device, const std::string& converter, bool has_products,
                      const std::string& products, const std::string& instead) {
  if (has_products) return;
  throw Error(ExitCode::config, fmt::format("model.converters = [\"{}\"]: {} has no {}; use {}, or remove it "
                                            "from model.converters",
                                            converter, device.what, products, instead));
}

constexpr const char* kWithMx = "a B200, B300, GB200 or GB300";

// Among the devices, only Hoppers have grouped products of rows and products in blocks of 128. No
// GPU runs grouped products in blocks of 128, or weight gradients of experts in float8.
void check_float8(const JobConfig& config, const ir::DeviceModel& device) {
  using enum Float8Recipe;
  const bool hopper = device.float8_blocks_fraction > 0;
  const std::optional<Float8Options> linear = float8_options(config), experts = float8_expert_options(config);
  if (linear && !linear->emulate) {
    if (linear->recipe == mxfp8)
      require_products(device, "quantize.linear.mx", device.float8_mx_fraction > 0, "products of MXFP8",
                       kWithMx);
    else if (linear->recipe == nvfp4)
      require_products(device, "quantize.linear.nvfp4", device.peak_nvfp4_flops_per_s > 0,
                       "products of NVFP4", kWithMx);
    else if (linear->recipe == blockwise)
      require_products(device, "float8", hopper, "float8 products with scales of 128 elements",
                       "a Hopper or another recipe");
    else
      require_products(device, "float8", device.peak_float8_flops_per_s > 0, "float8 products",
                       "a Hopper or newer");
  }
  if (experts && !experts->emulate) {
    const std::string converter = float8_expert_section(config);
    if (experts->recipe == mxfp8)
      require_products(device, converter, device.float8_mx_fraction > 0, "products of MXFP8", kWithMx);
    else if (experts->recipe != rowwise_with_gw_hp)
      require_products(
          device, converter, false,
          fmt::format("grouped products of \"{}\", as no GPU in this version", name_of(experts->recipe)),
          "quantize.grouped_mm.float8.emulate = true or \"rowwise_with_gw_hp\"");
    else
      require_products(device, converter, hopper, "products of experts in float8", "a Hopper");
  }
}

ir::JobClass class_of(const JobConfig& config, const Decoder& model, const Layout& layout,
                      const ir::DeviceModel& device) {
  if (model.routed_tokens()) return ir::JobClass::experts;
  if (config.parallelism.has_pipeline()) return ir::JobClass::pipeline;
  if (config.training.seq_len >= ir::kLongContext) return ir::JobClass::long_context;
  if (float8_options(config)) return ir::JobClass::float8;
  if (layout.mesh.degree(Axis::tp) > 1) return ir::JobClass::tensor_parallel;
  return layout.mesh.world_size() > device.ranks_per_node ? ir::JobClass::several_nodes
                                                          : ir::JobClass::one_node;
}

}  // namespace

JobPlan plan_job(const JobConfig& job, std::int64_t world, std::optional<std::int64_t> rank,
                 const ir::DeviceModel& device, const std::filesystem::path& timeline,
                 const std::shared_ptr<TracedGraphs>& traces) {
  JobPlan plan;
  const JobConfig config = replayed(job, plan.notes);
  const Stopwatch started;
  check_float8(config, device);
  plan.layout = resolve_layout(config, world);
  const std::shared_ptr<const Decoder> model = make_decoder(config.model.name, config.model.sizes);
  plan.rank = rank.value_or(0);
  const TrainStepOptions options = step_options(config, plan.layout, plan.rank);
  plan.expert_rows = expert_rows(*model, options);
  plan.model = config.model.name;
  plan.flavor = config.model.flavor;
  plan.parameters = parameter_count(*model);
  plan.flops_per_token = static_cast<double>(model->flops_per_token(config.training.seq_len));
  plan.attention_flops_per_token =
      static_cast<double>(model->attention_flops_per_token(config.training.seq_len));
  plan.memory_policy = memory_policy(config);
  plan.tokens_per_step = plan.layout.global_batch_size * config.training.seq_len;
  plan.steps = config.training.steps;
  plan.device = &device;
  plan.accuracy = ir::accuracy_of(class_of(config, *model, plan.layout, device));
  plan.usable_bytes = memory_of(device) - device.reserve_bytes;
  if (!device.is_gpu && world > 1)
    plan.usable_bytes -= static_cast<std::int64_t>(
        comm_record::record_bytes(static_cast<std::size_t>(config.comm.trace_buf_size)));
  plan.times.model_ms = started.milliseconds();

  const std::optional<MatmulTable> matmuls = matmul_table(config);
  CompileRequest request =
      compile_request(config, device.is_gpu ? TargetDevice::cuda : TargetDevice::cpu, {}, matmuls);
  request.traces = traces;
  request.verify = ir::VerifyAfter::last_pass;
  const EstimateStep estimate_of =
      estimate_on(device, plan.layout, plan.expert_rows, measured_products(matmuls, device, plan.notes));
  std::optional<StepProgram> whole;
  std::optional<PipelineRanks> ranks;
  if (follows_schedule(config)) {
    request.traces = nullptr;  // functions of different ranks share names
    ranks.emplace(config, plan.layout, plan.rank, model, request);
    for (const StepProgram& kind : ranks->kinds()) add_times(kind, plan.times);
  } else {
    whole.emplace(compile_step(config, plan.layout, std::nullopt, plan.rank, model, request));
    plan_repeat(*whole, plan);
    add_times(*whole, plan.times);
  }
  const Stopwatch compiled_all;
  if (ranks)
    plan_stages(*ranks, config, rank.has_value(), estimate_of, plan);
  else
    plan.step = estimate(*whole, estimate_of);
  const StepProgram& functions = ranks ? ranks->of(plan.layout.mesh.coordinate(plan.rank, Axis::pp)) : *whole;
  for (const CompiledStep* function : functions.all()) {
    const auto add_notes = [&](const std::vector<std::string>& notes) {
      for (const std::string& note : notes)
        plan.pass_notes.push_back(function->function().name + ": " + note);
    };
    add_notes(function->report().notes);
    for (const ir::PassReport& pass : function->report().pipeline.passes) add_notes(pass.notes);
  }
  plan.memory = planned_memory(functions);
  plan.checkpoint = checkpoint_bytes(config, plan);
  plan.times.plan_ms += compiled_all.milliseconds();
  if (!timeline.empty()) write_timeline(functions.all(), plan.memory.report, timeline);
  return plan;
}

double JobPlan::mfu_percent() const {
  return *rondo::mfu_percent(tokens_per_s_per_rank(), flops_per_token, device->peak_16bit_flops_per_s);
}

double JobPlan::causal_mfu_percent() const {
  return mfu_percent() * (1 - attention_flops_per_token / 2 / flops_per_token);
}

double JobPlan::hfu_percent() const {
  double flops = step.flops;
  if (pipeline) {
    flops = 0;
    for (const ir::StepEstimate& rank : pipeline->computes)
      flops += rank.flops / static_cast<double>(pipeline->computes.size());
  }
  return 100 * flops / step_s() / device->peak_16bit_flops_per_s;
}

RunEstimate JobPlan::run(std::int64_t of_steps) const {
  RunEstimate run;
  run.steps = of_steps;
  run.tokens = static_cast<double>(of_steps) * static_cast<double>(tokens_per_step);
  run.seconds = static_cast<double>(of_steps) * step_s();
  run.device_hours = run.seconds / 3600 * static_cast<double>(layout.mesh.world_size());
  run.price = run.device_hours * price_per_hour;
  run.energy_kwh = run.device_hours * device->power_w / 1000;
  return run;
}

double JobPlan::price_per_billion_tokens() const {
  return 1e9 / tokens_per_s_per_rank() / 3600 * price_per_hour;
}

StepFloor JobPlan::floor() const {
  const double dense_s = step.of(ir::CostKind::matmul).seconds + step.of(ir::CostKind::attention).seconds;
  return std::max({StepFloor{dense_s, "products and attention"},
                   StepFloor{step.node_links_s, "communication within nodes"},
                   StepFloor{step.network_s, "communication between nodes"}},
                  [](const StepFloor& a, const StepFloor& b) { return a.seconds < b.seconds; });
}

double JobPlan::most_tokens_per_s_per_rank() const {
  return tokens_per_s_per_rank() * step_s() / floor().seconds;
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
      {step.slowed_s, "slowdown of compute by communication"},
      {step.exposed_s, "exposed communication"},
      {step.transfers.exposed_s, "exposed offloading"},
      {bubble_s, "bubbles of the pipeline"},
  };
  const auto most = *std::max_element(parts.begin(), parts.end());
  return fmt::format("{}, {:.0f} % of the step", most.second, 100 * most.first / step_s());
}

}  // namespace rondo
