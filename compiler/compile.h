// From a step function to something that runs it: trace, passes, executor.
//
// Compiling needs shapes only, so that it comes before any weight exists; `bind` then takes the state.
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
#include "compiler/report/memory_report.h"
#include "compiler/trace/step_function.h"

namespace rondo {

enum class ExecutorKind { eager, interpreter, replay };

// By the name of the function.
using TracedGraphs = std::map<std::string, ir::Graph>;

struct CompileRequest {
  ExecutorKind executor = ExecutorKind::replay;
  CompileOptions options;
  // Where graphs are written: NAME.ir after the last pass, with dump_all also NAME.NN-PASS.ir after each, and
  // NAME.memory.html, the picture of the memory plan. Empty: nowhere.
  std::filesystem::path dump_folder;
  bool dump_all = false;
  // Graphs of these very functions that were traced before, which are taken; others are traced and added.
  std::shared_ptr<TracedGraphs> traces = {};
};

struct CompileReport {
  double trace_ms = 0;
  double passes_ms = 0;  // with the verifier
  double plan_ms = 0;    // of the memory
  std::size_t traced_nodes = 0;
  std::size_t nodes = 0;
  ir::PipelineReport pipeline;
  std::size_t segments = 0;  // into how many pieces a device would record the graph; 1: no host read in it
  std::string segments_in_words;  // "3 segments, cut at ..."
  ir::MemoryReport memory;  // of the plan, whether the executor follows it or not; empty for eager steps
};

// What the executors of one run share, since they take turns. Destroyed after them and before the process
// groups.
struct SharedResources {
  std::shared_ptr<ReplayMemory> memory;  // nullptr where nothing is replayed
  StepWatch* watch = nullptr;            // told of what is recorded; nullptr without recordings
};

class CompiledStep {
 public:
  CompiledStep(StepFunction function, const CompileRequest& request);
  // Of a body, or of two that were merged. `before`: of what was done until then, for one of the bodies.
  CompiledStep(ir::Graph body, const CompileRequest& request, CompileReport before = {});

  // One line per collective in the order of the schedule: op, group, dtype and sizes. Equal on all ranks, or
  // they would wait for each other for ever. Empty for eager steps.
  std::string collective_sequence() const;
  const CompileReport& report() const { return report_; }
  const StepFunction& function() const { return function_; }
  // After the passes; empty for eager steps.
  const ir::Graph& graph() const { return graph_; }

  // Bytes that a replay of this needs; 0 for the other executors.
  std::int64_t replay_bytes() const;
  std::int64_t replay_host_bytes() const { return replay_bytes() == 0 ? 0 : plan_.host_arena_bytes; }

  // `shared` comes from share_resources, for this step among others.
  std::unique_ptr<Executor> bind(std::vector<at::Tensor> state, const SharedResources& shared) const;

 private:
  // `made_by`: who is to blame where the graph is refused.
  void run_passes(const CompileRequest& request, std::string_view made_by, ir::PipelineHalf half);

  StepFunction function_;
  ExecutorKind kind_;
  ir::Graph graph_;
  ir::MemoryPlan plan_;
  CompileReport report_;
};

// A function that runs in bodies (compiler/bodies/bodies.h): they have still to be compiled.
struct CutFunction {
  std::vector<ir::BodyGraph> bodies;  // in their order
  CompileReport report;               // of the trace, and of the passes before the cut
};
// REQUIRES: not eager.
CutFunction cut_function(const StepFunction& function, const CompileRequest& request,
                         const ir::CutOptions& cut);

// Before the first tensor on `device`, where steps will be replayed. On the CPU: cpu_memory::install.
void prepare_allocator(c10::Device device);
// For steps that never run at the same time, on `device`. `watch` follows what is recorded and outlives them.
SharedResources share_resources(const std::vector<const CompiledStep*>& steps, c10::Device device,
                                StepWatch* watch = nullptr);

}  // namespace rondo
