// Compiles a step function: trace, passes, memory plan, executor. Only shapes are needed, so it
// runs before any weight exists; `bind` then takes the state.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/bodies/bodies.h"
#include "compiler/execute/executor.h"
#include "compiler/execute/replay.h"
#include "compiler/ir/ir.h"
#include "compiler/ir/options.h"
#include "compiler/passes/pipeline.h"
#include "compiler/plan/report/memory_report.h"
#include "compiler/trace/step_function.h"

namespace rondo {

// Graphs by the name of their function.
using TracedGraphs = std::map<std::string, ir::Graph>;

struct CompileRequest {
  ExecutorKind executor = ExecutorKind::replay;
  CompileOptions options;
  // Folder for dumps: NAME.ir after the last pass and NAME.memory.html, the memory timeline.
  // dump_all adds NAME.NN-PASS.ir after each pass. Empty means no dumps.
  std::filesystem::path dump_folder;
  bool dump_all = false;
  ir::VerifyAfter verify = ir::VerifyAfter::each_change;
  // Cache of traces of these functions. Functions that it lacks are traced and added.
  std::shared_ptr<TracedGraphs> traces = {};
};

struct CompileReport {
  double trace_ms = 0;
  double passes_ms = 0;  // with the verifier
  double plan_ms = 0;    // of the memory plan
  std::size_t traced_nodes = 0;
  std::size_t nodes = 0;
  std::vector<std::string> notes;  // of the function
  ir::PipelineReport pipeline;
  std::size_t segments = 0;       // recorded pieces; 1 without host reads
  std::string segments_in_words;  // "3 segments, cut at ..."
  ir::MemoryReport memory;        // of the plan, for every executor but eager
};

// Resources that the executors of one run share, since they never run at the same time. Destroyed
// after them and before the process groups.
struct SharedResources {
  std::shared_ptr<ReplayMemory> memory;  // nullptr without replays
  StepWatch* watch = nullptr;            // watches launches; nullptr without recordings
};

class CompiledStep {
 public:
  CompiledStep(StepFunction function, const CompileRequest& request);
  // Compiles a body or two merged bodies. `before` is the report of the work before the cut, for
  // one body.
  CompiledStep(ir::Graph body, const CompileRequest& request, CompileReport before = {});

  // Returns one line per collective in schedule order: op, group, dtype and sizes. Must be equal on
  // all ranks, which would deadlock otherwise. Empty for eager steps.
  std::string collective_sequence() const;
  const CompileReport& report() const { return report_; }
  const StepFunction& function() const { return function_; }
  // The graph after the passes; empty for eager steps.
  const ir::Graph& graph() const { return graph_; }

  // Returns the device bytes that a replay needs; 0 for other executors.
  std::int64_t replay_bytes() const;
  std::int64_t replay_host_bytes() const { return replay_bytes() == 0 ? 0 : plan_.host_arena_bytes; }

  // `shared` comes from share_resources with this step among the others.
  std::unique_ptr<Executor> bind(std::vector<at::Tensor> state, const SharedResources& shared) const;

 private:
  // `made_by` names the origin of the graph, for verifier errors.
  void run_passes(const CompileRequest& request, std::string_view made_by, ir::PipelineHalf half);

  StepFunction function_;
  ExecutorKind kind_;
  ir::Graph graph_;
  ir::MemoryPlan plan_;
  CompileReport report_;
};

// The bodies of a function that is cut (compiler/bodies/bodies.h), before they are compiled.
struct CutFunction {
  std::vector<ir::BodyGraph> bodies;  // in enumeration order
  CompileReport report;               // of the trace and the passes before the cut
};
// Traces a function, runs the passes before the cut, and cuts it. REQUIRES: not eager.
CutFunction cut_function(const StepFunction& function, const CompileRequest& request,
                         const ir::CutOptions& cut);

// Installs the allocator for replays on a GPU. Must run before the first tensor on `device`. The
// CPU uses cpu_memory::install.
void prepare_allocator(c10::Device device);
// Allocates the memory of steps that never run at the same time. `watch` watches launches and
// outlives the executors.
SharedResources share_resources(const std::vector<const CompiledStep*>& steps, c10::Device device,
                                StepWatch* watch = nullptr);

}  // namespace rondo
