#include "compiler/passes/pipeline.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <unordered_map>

#include "compiler/ir/verify.h"
#include "support/error.h"
#include "support/text/nearest.h"

namespace rondo::ir {
namespace {

constexpr std::array kPasses = {
    // First, so that every later pass meets one form of a view.
    PassInfo{.name = "canonicalize",
             .run = &canonicalize,
             .needs = kFunctional,
             .gives = kOneFormOfView,
             .summary = "drops views and copies that change nothing"},
    // After canonicalize, which drops views and copies between two casts; before common_subexpressions, since
    // casts of one value become equal.
    PassInfo{.name = "fold_casts",
             .run = &fold_casts,
             .needs = kFunctional,
             .summary = "drops casts back, and casts of casts that rounded nothing"},
    // After canonicalize, which makes equal views equal; before anything that duplicates nodes on purpose.
    PassInfo{.name = "common_subexpressions",
             .run = &common_subexpressions,
             .needs = kFunctional,
             .summary = "computes what is equal once in each phase"},
    // After common_subexpressions, which leaves one of equal views and casts; before recompute, since it takes tensors
    // away that the backward would keep.
    PassInfo{.name = "chunk_loss",
             .run = &chunk_loss,
             .numerics = Numerics::rounds,
             .needs = kFunctional,
             .summary = "takes the head's product and the loss in compile.loss_chunks chunks of rows"},
    // After common_subexpressions, which lets a backward read the very values of its forward; before recompute, so
    // that memory policies see what is left to keep.
    PassInfo{.name = "fuse_rms_norm",
             .run = &fuse_rms_norm,
             .numerics = Numerics::rounds,
             .needs = kFunctional,
             .summary = "writes RMSNorm and its backward as one op each"},
    PassInfo{.name = "fuse_rope",
             .run = &fuse_rope,
             .numerics = Numerics::rounds,
             .needs = kFunctional,
             .summary = "writes rotary embeddings and their backward as one op each"},
    PassInfo{.name = "fuse_swiglu",
             .run = &fuse_swiglu,
             .numerics = Numerics::rounds,
             .needs = kFunctional,
             .summary = "writes silu(gate) * up and its backward as one op each"},
    // After common_subexpressions; before what treats collectives, since it adds some.
    PassInfo{.name = "recompute",
             .run = &recompute,
             .needs = kFunctional,
             .breaks = kGatheredOnce,
             .summary = "computes forward values again in the backward, as compile.memory_policy says"},
    // After recompute, which decides what is kept.
    PassInfo{.name = "offload",
             .run = &offload,
             .needs = kFunctional,
             .summary = "keeps activations in the host's memory under policy sac_and_offload"},
    // After recompute, which gathers again for what it computes again.
    PassInfo{.name = "deduplicate_unshard",
             .run = &deduplicate_unshard,
             .needs = kFunctional,
             .gives = kGatheredOnce,
             .summary = "gathers each parameter once in a phase"},
    // Before eliminate_dead_code, which drops what fed them.
    PassInfo{.name = "remove_dead_collectives",
             .run = &remove_dead_collectives,
             .summary = "drops collectives whose result nobody reads"},
    // After the passes that leave nodes without readers.
    PassInfo{
        .name = "eliminate_dead_code", .run = &eliminate_dead_code, .summary = "drops what nobody reads"},
    // Before gathers are bucketed, and named by more than one parameter.
    PassInfo{.name = "separate_gather_group",
             .run = &separate_gather_group,
             .needs = kFunctional,
             .summary = "gives gathers a group of their own under compile.enable_fsdp_ag_rs_overlap"},
    // On the gathers that are left.
    PassInfo{.name = "transformer_block_bucketing",
             .run = &transformer_block_bucketing,
             .needs = kFunctional | kGatheredOnce,
             .summary = "one gather and one reduce-scatter for the parameters of a block"},
    // Instead of the one before it.
    PassInfo{.name = "auto_bucketing",
             .run = &auto_bucketing,
             .in_default = false,
             .needs = kFunctional | kGatheredOnce,
             .replaces = "transformer_block_bucketing",
             .summary = "buckets by size and overlap instead of by block"},
    // On what the reduce-scatters' buckets became.
    PassInfo{.name = "bucket_replica_sums",
             .run = &bucket_replica_sums,
             .needs = kFunctional,
             .summary = "one sum over replicas for the gradients of a block"},
    // On the buckets, so that a whole one is under way while the one before it is computed with.
    PassInfo{.name = "overlap_fsdp",
             .run = &overlap_fsdp,
             .needs = kFunctional,
             .summary = "starts gathers earlier and waits for reduce-scatters later"},
    // Beside the gathers and reductions of parameters, wherever these stand now.
    PassInfo{.name = "overlap_activations",
             .run = &overlap_activations,
             .needs = kFunctional,
             .summary = "computes gradients of weights while ranks that share a layer exchange activations"},
    // After every pass that adds or drops nodes, so that it sees the lifetimes that will be; before reinplace,
    // since an overwritten operand ties its readers down.
    PassInfo{.name = "reorder_for_memory",
             .run = &reorder_for_memory,
             .needs = kFunctional,
             .summary = "moves nodes where that lowers the peak of memory"},
    // After every pass that adds, moves or drops a reader: what follows would have to look at storages.
    PassInfo{.name = "reinplace",
             .run = &reinplace,
             .needs = kFunctional,
             .breaks = kFunctional,
             .summary = "writes results over operands nobody reads again"},
    // Last: it marks nodes by their numbers.
    PassInfo{.name = "cudagraph",
             .run = &cudagraph,
             .in_default = false,
             .only_on = TargetDevice::cuda,
             .summary = "marks what the device records once and replays without the host"},
};

struct Chooser {
  std::span<const PassInfo> table;
  const CompileOptions& options;
  std::vector<bool> wanted = std::vector<bool>(table.size(), false);
  std::vector<bool> replaced = std::vector<bool>(table.size(), false);
  std::vector<std::string> problems = {};
  std::vector<std::string> notes = {};

  // Index into the table; its size, and a problem, if there is no such pass.
  std::size_t find(const std::string& key, const std::string& name) {
    const auto row =
        std::find_if(table.begin(), table.end(), [&](const PassInfo& p) { return p.name == name; });
    if (row == table.end()) {
      std::vector<std::string> names = {"default"};
      for (const PassInfo& pass : table) names.emplace_back(pass.name);
      problems.push_back(fmt::format("{}: unknown pass \"{}\"{}; known are {}", key, name,
                                     did_you_mean(name, names), fmt::join(names, ", ")));
    }
    return static_cast<std::size_t>(row - table.begin());
  }

  void want_default() {
    std::vector<std::string_view> rounding;
    for (std::size_t i = 0; i < table.size(); ++i) {
      if (!table[i].in_default) continue;
      if (table[i].numerics == Numerics::rounds && options.numerics == Numerics::exact) {
        rounding.push_back(table[i].name);
      } else {
        wanted[i] = true;
      }
    }
    if (!rounding.empty())
      notes.push_back(fmt::format("{} left out, since compile.numerics = \"exact\": {}",
                                  rounding.size() == 1 ? "a pass that rounds is" : "passes that round are",
                                  fmt::join(rounding, ", ")));
  }

  void want(const std::string& name) {
    const std::size_t i = find("compile.passes", name);
    if (i == table.size()) return;
    if (table[i].only_on && table[i].only_on != options.device) {
      problems.push_back(fmt::format("compile.passes: {} needs device {}, and the run's is {}; leave it out",
                                     name, name_of(*table[i].only_on), name_of(options.device)));
    } else if (table[i].numerics == Numerics::rounds && options.numerics == Numerics::exact) {
      problems.push_back(
          fmt::format("compile.passes: {} rounds; set compile.numerics = \"rounds\" to allow it", name));
    } else {
      wanted[i] = true;
      replace(table[i]);
    }
  }

  // A pass that was asked for by name takes the place of the one that it is another way of.
  void replace(const PassInfo& pass) {
    for (std::size_t i = 0; i < table.size(); ++i) {
      if (pass.replaces.empty() || table[i].name != pass.replaces) continue;
      replaced[i] = true;
      notes.push_back(fmt::format("{} is left out: {} takes its place", table[i].name, pass.name));
    }
  }

  void want_listed() {
    // A bare "cudagraph" adds to the default list rather than replacing it.
    if (options.passes == std::vector<std::string>{"cudagraph"}) want_default();
    std::size_t furthest = 0;
    for (const std::string& name : options.passes) {
      if (name == "default") {
        want_default();
        continue;
      }
      want(name);
      const auto row =
          std::find_if(table.begin(), table.end(), [&](const PassInfo& p) { return p.name == name; });
      const auto place = static_cast<std::size_t>(row - table.begin());
      if (place < furthest)
        problems.push_back(
            fmt::format("compile.passes: {} must come first, before {}; the pipeline's order "
                        "is fixed (`rondo opt --list` shows it)",
                        name, table[furthest].name));
      if (row != table.end()) furthest = std::max(furthest, place);
    }
  }

  void disable() {
    for (const std::string& name : options.disable_passes) {
      const std::size_t i = find("compile.disable_passes", name);
      if (i == table.size()) continue;
      if (table[i].required)
        problems.push_back(
            fmt::format("compile.disable_passes: {} is required and cannot be disabled", name));
      wanted[i] = false;
    }
  }
};

// The first pass that gives (or breaks) a property.
const PassInfo* find_where(std::span<const PassInfo> table, Properties PassInfo::*list, Properties one) {
  const auto row = std::find_if(table.begin(), table.end(), [&](const PassInfo& p) { return p.*list & one; });
  return row == table.end() ? nullptr : &*row;
}

std::string unmet(std::span<const PassInfo> table, std::span<const PassInfo* const> before,
                  const PassInfo& pass, Properties one) {
  if (const PassInfo* giver = find_where(table, &PassInfo::gives, one))
    return fmt::format("{} needs {}: {} must come first; name it in compile.passes and do not disable it",
                       pass.name, property_name(one), giver->name);
  for (const PassInfo* earlier : before)
    if (earlier->breaks & one)
      return fmt::format("{} must come first, before {}, which leaves no {}", pass.name, earlier->name,
                         property_name(one));
  RONDO_ASSERT(false, "a pass needs what no pass gives");
}

double ms_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

std::map<std::string, int> count_ops(const Graph& graph) {
  std::unordered_map<std::string_view, int> counts;
  for (const Node& node : graph.nodes) ++counts[node.op];
  return {counts.begin(), counts.end()};
}

}  // namespace

std::span<const PassInfo> all_passes() { return kPasses; }

std::string_view property_name(Properties one) {
  switch (one) {
    case kFunctional:
      return "graph without overwrites";
    case kOneFormOfView:
      return "one form of equal views";
    case kGatheredOnce:
      return "one gather of each parameter a phase";
    default:
      return "?";
  }
}

std::vector<std::string> order_problems(std::span<const PassInfo> table,
                                        std::span<const PassInfo* const> passes) {
  std::vector<std::string> problems;
  Properties held = kFunctional;
  for (std::size_t i = 0; i < passes.size(); ++i) {
    const PassInfo& pass = *passes[i];
    for (Properties one = 1; one != 0 && one <= pass.needs; one <<= 1)
      if (pass.needs & ~held & one) problems.push_back(unmet(table, passes.first(i), pass, one));
    held = (held & ~pass.breaks) | pass.gives;
  }
  return problems;
}

Selection select_passes(std::span<const PassInfo> table, const CompileOptions& options) {
  Chooser chooser{.table = table, .options = options};
  chooser.want_listed();
  chooser.disable();
  Selection selection{.passes = {}, .notes = std::move(chooser.notes)};
  for (std::size_t i = 0; i < table.size(); ++i)
    if (table[i].required || (chooser.wanted[i] && !chooser.replaced[i]))
      selection.passes.push_back(&table[i]);
  std::vector<std::string> problems = std::move(chooser.problems);
  if (problems.empty()) problems = order_problems(table, selection.passes);
  if (!problems.empty()) throw Error(ExitCode::config, fmt::format("{}", fmt::join(problems, "\n")));
  return selection;
}

PipelineReport run_pipeline(Graph& graph, const CompileOptions& options, const DumpCallback& dump) {
  Selection selection = select_passes(all_passes(), options);
  PipelineReport report{.passes = {}, .notes = std::move(selection.notes)};
  std::map<std::string, int> before = count_ops(graph);
  for (const PassInfo* pass : selection.passes) {
    PassReport row{.name = pass->name, .nodes_before = graph.nodes.size(), .op_difference = {}, .notes = {}};
    const auto start = std::chrono::steady_clock::now();
    row.notes = pass->run(graph, options);
    row.ms = ms_since(start);
    row.nodes_after = graph.nodes.size();
    if (dump) dump(pass->name, graph);
    const auto verify_start = std::chrono::steady_clock::now();
    verify(graph, pass->name);
    row.verify_ms = ms_since(verify_start);
    std::map<std::string, int> after = count_ops(graph);
    std::map<std::string, int> difference = after;
    for (const auto& [op, count] : before) difference[op] -= count;
    for (const auto& [op, change] : difference)
      if (change != 0) row.op_difference.emplace_back(op, change);
    before = std::move(after);
    report.passes.push_back(std::move(row));
  }
  return report;
}

}  // namespace rondo::ir
