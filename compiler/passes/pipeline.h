// The pipeline of passes: selection, order, and reports.
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

// Properties that a graph may have in the pipeline.
using Properties = std::uint32_t;
constexpr Properties kFunctional = 1;    // no node overwrites anything; true for traced graphs
constexpr Properties kGatheredOnce = 2;  // each parameter is gathered at most once in a phase
constexpr Properties kPhasesInTurn = 4;  // phases do not overlap; true for traced graphs
std::string_view property_name(Properties property);

// Describes a pass: what runs, what the pipeline checks, and, as phrases, the row of docs/graph.md.
struct PassInfo {
  std::string_view name;
  Notes (*run)(Graph&, const CompileOptions&);
  Numerics numerics = Numerics::exact;
  bool in_default = true;  // part of "default"
  bool of_bodies = false;  // runs after the cut, on each body of a graph that is cut into bodies
  Properties needs = 0;
  Properties gives = 0;
  Properties breaks = 0;
  std::string_view replaces = {};            // the default pass to which this is an alternative
  std::optional<TargetDevice> only_on = {};  // the only device that supports the pass
  std::string_view does;
  std::string_view guarantees = {};
  std::string_view place = {};            // the passes before and after it, and why
  std::string_view numerics_detail = {};  // the exception to exact, or how it rounds
};

// Returns the passes in the order in which they run.
std::span<const PassInfo> all_passes();
// Returns them as a table for docs/graph.md.
std::string passes_as_markdown();

struct Selection {
  std::vector<const PassInfo*> passes;
  std::vector<std::string> notes;     // passes left out
  std::vector<std::string> problems;  // why the selection cannot run
};
// Selects the passes of the options. `table` is all_passes() outside of tests. Problems are an
// unknown name (with the nearest known one), a pass that cannot run here, a list in another order
// than the table's, and a pass with unmet needs.
Selection choose_passes(std::span<const PassInfo> table, const CompileOptions& options);
// Calls choose_passes and throws Error(ExitCode::config) with all problems.
Selection select_passes(std::span<const PassInfo> table, const CompileOptions& options);

// Returns the problems of running these passes in this order: which passes must come first.
std::vector<std::string> order_problems(std::span<const PassInfo> table,
                                        std::span<const PassInfo* const> passes);

struct PassReport {
  std::string_view name;
  double ms = 0;         // the pass alone
  double verify_ms = 0;  // the verifier after it, if it ran
  std::size_t nodes_before = 0;
  std::size_t nodes_after = 0;
  std::vector<std::pair<std::string, int>> op_difference;  // ops with another count, by name
  Notes notes;
};
struct PipelineReport {
  std::vector<PassReport> passes;
  std::vector<std::string> notes;
};

// Called after each pass, before the verifier, so that a broken graph can be inspected.
using DumpCallback = std::function<void(std::string_view pass, const Graph&)>;

// The passes to run. For a graph that is cut into bodies (compiler/bodies/bodies.h), some passes
// run before the cut, and the others after it.
enum class PipelineHalf : std::uint8_t { both, before_cut, after_cut };

// Says when run_pipeline verifies: after each pass that changes the graph, or once, after the last
// pass. A plan, which nothing executes, takes the second.
enum class VerifyAfter : std::uint8_t { each_change, last_pass };

// Runs the selected passes on a verified graph, and verifies it. Throws what select_passes and
// verify throw, and leaves the graph as the failing pass left it.
PipelineReport run_pipeline(Graph& graph, const CompileOptions& options, const DumpCallback& dump = {},
                            PipelineHalf half = PipelineHalf::both,
                            VerifyAfter when = VerifyAfter::each_change);

}  // namespace rondo::ir
