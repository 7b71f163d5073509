// Which passes run, in which order, and what each did.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/analysis/notes.h"
#include "compiler/ir/ir.h"
#include "compiler/ir/options.h"

namespace rondo::ir {

// What may hold of a graph on its way through the pipeline.
using Properties = std::uint32_t;
constexpr Properties kFunctional = 1;    // no node overwrites anything; holds of a traced graph
constexpr Properties kGatheredOnce = 2;  // each parameter is gathered at most once in a phase
constexpr Properties kPhasesInTurn = 4;  // all of a phase before the next; holds of a traced graph
std::string_view property_name(Properties one);

// The one statement of a pass's facts: what runs, what the pipeline checks, and, as phrases, what
// docs/graph.md shows.
struct PassInfo {
  std::string_view name;
  Notes (*run)(Graph&, const CompileOptions&);
  Numerics numerics = Numerics::exact;
  bool in_default = true;  // part of what "default" stands for
  bool of_bodies = false;  // where a graph is cut into bodies: runs on each of them, behind the cut
  Properties needs = 0;
  Properties gives = 0;
  Properties breaks = 0;
  std::string_view replaces = {};            // the pass of the default list that this one is another way of
  std::optional<TargetDevice> only_on = {};  // the device without which the pass makes no sense
  std::string_view does;
  std::string_view guarantees = {};
  std::string_view place = {};            // after and before what it runs, and why
  std::string_view numerics_detail = {};  // exact but for what, or how it rounds
};

// In the order in which they run.
std::span<const PassInfo> all_passes();
// The same as a table for docs/graph.md.
std::string passes_as_markdown();

struct Selection {
  std::vector<const PassInfo*> passes;
  std::vector<std::string> notes;     // what the user may not expect: a pass left out
  std::vector<std::string> problems;  // why it cannot run
};
// What the options ask for. `table` is all_passes() outside tests. Problems are an unknown name (and the
// nearest known one), a pass that cannot run here, a list in another order than the table's, a pass whose
// needs those before it do not meet.
Selection choose_passes(std::span<const PassInfo> table, const CompileOptions& options);
// The same; throws Error(ExitCode::config) with every problem.
Selection select_passes(std::span<const PassInfo> table, const CompileOptions& options);

// What stands in the way of running these passes in this order: who must come first.
std::vector<std::string> order_problems(std::span<const PassInfo> table,
                                        std::span<const PassInfo* const> passes);

struct PassReport {
  std::string_view name;
  double ms = 0;         // the pass alone
  double verify_ms = 0;  // the verifier after it, if it changed anything
  std::size_t nodes_before = 0;
  std::size_t nodes_after = 0;
  std::vector<std::pair<std::string, int>> op_difference;  // ops whose number changed, by name
  Notes notes;
};
struct PipelineReport {
  std::vector<PassReport> passes;
  std::vector<std::string> notes;
};

// Called after each pass, before the verifier, so that a broken graph can be looked at.
using DumpCallback = std::function<void(std::string_view pass, const Graph&)>;

// Which of the passes: those of a graph that is cut into bodies (compiler/bodies/bodies.h) run before the cut
// or behind it.
enum class PipelineHalf : std::uint8_t { both, before_cut, after_cut };

// Runs the selected passes on a verified graph, and verifies after each that changes it. Throws what
// select_passes and verify throw; the graph is then in the state that the failing pass left.
PipelineReport run_pipeline(Graph& graph, const CompileOptions& options, const DumpCallback& dump = {},
                            PipelineHalf half = PipelineHalf::both);

}  // namespace rondo::ir
