// The order is trace, verify, passes, memory plan. All of it needs only shapes; bind() alone takes
// tensors. The plan is made for the interpreter too, for its report. Steps that share resources get
// one arena of the largest size, since only one runs at a time. A watch for hangs exists only if a
// step has segments to record. Ranks compare the text of the collectives before the first
// collective runs.
#include "compiler/compile.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "compiler/execute/cpu_device.h"
#include "compiler/execute/cuda/cuda_device.h"
#include "compiler/execute/cuda/placing_allocator.h"
#include "compiler/ops/op.h"
#include "compiler/ops/segments.h"
#include "compiler/plan/report/memory_timeline.h"
#include "compiler/text/text.h"
#include "compiler/trace/tracer.h"
#include "compiler/verify/infer_sharding.h"
#include "compiler/verify/verify.h"
#include "support/error.h"
#include "support/stopwatch.h"

namespace rondo {
namespace {

void write(const std::filesystem::path& file, const std::string& text) {
  std::filesystem::create_directories(file.parent_path());
  std::ofstream out(file);
  out << text;
  out.close();
  if (!out)
    throw Error(ExitCode::resources, "cannot write the graph to " + file.string() +
                                         "; free disk space or set compile.dump = \"none\"");
}

// Writes a graph with the known shardings of its values as comments.
void write_graph(const std::filesystem::path& file, const ir::Graph& graph) {
  const ir::IdMap<std::string> comments = ir::sharding_comments(graph);
  write(file, ir::print(graph, &comments));
}

std::shared_ptr<ReplayDevice> make_replay_device(c10::Device device) {
  return device.is_cpu() ? make_cpu_device() : cuda::make_device(device.index());
}

ir::Graph traced(const StepFunction& function, const CompileRequest& request) {
  if (request.traces == nullptr) return trace(function);
  if (!request.traces->contains(function.name)) request.traces->emplace(function.name, trace(function));
  return request.traces->at(function.name);
}

// Returns the callback that dumps a graph after each pass, if requested, and dumps the trace.
ir::DumpCallback dump_of(const ir::Graph& graph, const CompileRequest& request) {
  if (!request.dump_all || request.dump_folder.empty()) return {};
  write_graph(request.dump_folder / (graph.name + ".00-trace.ir"), graph);
  return [folder = request.dump_folder, name = graph.name, number = 0](std::string_view pass,
                                                                       const ir::Graph& graph) mutable {
    write_graph(folder / fmt::format("{}.{:02}-{}.ir", name, ++number, pass), graph);
  };
}

// Dumps before the verifier, so that a refused graph can be inspected. A user cannot repair a
// graph that Rondo makes, so the error asks for a report. Unsupported configurations are rules
// between keys.
ir::PipelineReport verify_and_improve(ir::Graph& graph, std::string_view made_by,
                                      const CompileRequest& request, ir::PipelineHalf half) {
  const ir::DumpCallback dump = dump_of(graph, request);
  try {
    ir::verify(graph, made_by);
    return ir::run_pipeline(graph, request.options, dump, half, request.verify);
  } catch (const ir::RuleBroken& broken) {
    throw Error(broken.code(),
                fmt::format("{}. This is a bug in Rondo, not in the configuration: please report it "
                            "with config.toml or the flags",
                            broken.what()));
  }
}

// Returns the inputs and outputs of a body as a function.
StepFunction signature_of(const ir::Graph& graph) {
  StepFunction function{
      .name = graph.name, .inputs = {}, .outputs = graph.outputs, .body = {}, .mesh = graph.mesh};
  for (const ir::Input& input : graph.inputs)
    function.inputs.push_back(
        {input.name, input.kind, graph.value(input.value).type, input.bucket, input.sharding});
  return function;
}

}  // namespace

CompiledStep::CompiledStep(StepFunction function, const CompileRequest& request)
    : function_(std::move(function)), kind_(request.executor) {
  if (kind_ == ExecutorKind::eager) return;
  const Stopwatch started;
  graph_ = traced(function_, request);
  report_.trace_ms = started.milliseconds();
  report_.notes = function_.notes;
  run_passes(request, "trace", ir::PipelineHalf::both);
}

CompiledStep::CompiledStep(ir::Graph body, const CompileRequest& request, CompileReport before)
    : function_(signature_of(body)),
      kind_(request.executor),
      graph_(std::move(body)),
      report_(std::move(before)) {
  run_passes(request, "cut_into_bodies", ir::PipelineHalf::after_cut);
}

void CompiledStep::run_passes(const CompileRequest& request, std::string_view made_by,
                              ir::PipelineHalf half) {
  if (report_.traced_nodes == 0) report_.traced_nodes = graph_.nodes.size();
  const Stopwatch started;
  ir::PipelineReport report = verify_and_improve(graph_, made_by, request, half);
  std::move(report.passes.begin(), report.passes.end(), std::back_inserter(report_.pipeline.passes));
  report_.pipeline.notes = std::move(report.notes);
  report_.passes_ms += started.milliseconds();
  for (std::size_t i = 0; i < graph_.inputs.size(); ++i)
    function_.inputs[i].on_host = graph_.value(graph_.inputs[i].value).on_host;
  report_.nodes = graph_.nodes.size();
  report_.segments = ir::find_segments(graph_).size();
  report_.segments_in_words = ir::describe_segments(graph_);
  const Stopwatch passed;
  plan_ = ir::plan_memory(graph_, ir::memory_needs(request.options.device));
  report_.memory = ir::report_memory(graph_, plan_);
  report_.plan_ms = passed.milliseconds();
  if (request.dump_folder.empty()) return;
  write_graph(request.dump_folder / (function_.name + ".ir"), graph_);
  write(request.dump_folder / (function_.name + ".memory.html"), ir::memory_timeline(graph_, report_.memory));
}

CutFunction cut_function(const StepFunction& function, const CompileRequest& request,
                         const ir::CutOptions& cut) {
  CutFunction result;
  const Stopwatch started;
  ir::Graph joint = traced(function, request);
  result.report.trace_ms = started.milliseconds();
  result.report.traced_nodes = joint.nodes.size();
  result.report.notes = function.notes;
  const Stopwatch passes;
  result.report.pipeline = verify_and_improve(joint, "trace", request, ir::PipelineHalf::before_cut);
  result.bodies = ir::cut_into_bodies(joint, cut);
  result.report.passes_ms = passes.milliseconds();
  return result;
}

std::string CompiledStep::collective_sequence() const {
  std::string text;
  for (const ir::Node& node : graph_.nodes) {
    if (!ir::is_collective(ir::facts(node.op))) continue;
    const ir::TensorType& type = graph_.value(node.results.at(0)).type;
    text += node.op + " " + std::string(ir::dtype_name(type.dtype)) + "[";
    for (std::int64_t size : type.sizes) text += std::to_string(size) + " ";
    text += "] ";
    for (const ir::Argument& arg : node.args)
      if (const auto* name = std::get_if<std::string>(&arg)) text += *name + " ";
    text += "in " + node.module + "\n";
  }
  return text;
}

std::int64_t CompiledStep::replay_bytes() const {
  return kind_ == ExecutorKind::replay ? plan_.arena_bytes : 0;
}

std::unique_ptr<Executor> CompiledStep::bind(std::vector<at::Tensor> state,
                                             const SharedResources& shared) const {
  switch (kind_) {
    case ExecutorKind::eager:
      return make_eager(function_, std::move(state));
    case ExecutorKind::interpreter:
      return make_interpreter(graph_, std::move(state));
    case ExecutorKind::replay:
      return make_replay(graph_, plan_, shared.memory, std::move(state), shared.watch);
  }
  throw Error(ExitCode::internal, "unknown executor");
}

void prepare_allocator(c10::Device device) {
  if (device.is_cuda()) cuda::install_placing_allocator();
}

SharedResources share_resources(const std::vector<const CompiledStep*>& steps, c10::Device device,
                                StepWatch* watch) {
  std::int64_t bytes = 0, host_bytes = 0;
  bool records = false;
  for (const CompiledStep* step : steps) {
    bytes = std::max(bytes, step->replay_bytes());
    host_bytes = std::max(host_bytes, step->replay_host_bytes());
    records = records || !step->graph().segments.empty();
  }
  if (bytes == 0) return {};
  const std::shared_ptr<ReplayDevice> replay_device = make_replay_device(device);
  SharedResources shared{std::make_shared<ReplayMemory>(replay_device, bytes, host_bytes), nullptr};
  if (records && watch != nullptr) {
    watch->follow([replay_device] { return replay_device->counted(); });
    shared.watch = watch;
  }
  return shared;
}

}  // namespace rondo
