// Selection and order of passes, options from text, and the report of a pipeline.
#include "compiler/passes/pipeline.h"

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "compiler/text/text.h"
#include "support/error.h"
#include "tests/compiler/passes/random_graph.h"

using namespace rondo;
using namespace rondo::ir;

namespace {

Notes nothing(Graph&, const CompileOptions&) { return {}; }

constexpr std::array kTable = {
    PassInfo{.name = "first", .run = &nothing, .does = ""},
    PassInfo{.name = "second", .run = &nothing, .does = ""},
    PassInfo{.name = "rounding", .run = &nothing, .numerics = Numerics::rounds, .does = ""},
    PassInfo{.name = "extra", .run = &nothing, .in_default = false, .does = ""},
    PassInfo{
        .name = "cudagraph", .run = &nothing, .in_default = false, .only_on = TargetDevice::cuda, .does = ""},
};

std::string names(const CompileOptions& options) {
  std::string list;
  for (const PassInfo* pass : select_passes(kTable, options).passes) (list += pass->name) += " ";
  return list;
}

std::string error_of(const CompileOptions& options) {
  try {
    select_passes(kTable, options);
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::config);
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("default means the default list") {
  CHECK(names({}) == "first second ");
  CHECK(names({.passes = {}, .disable_passes = {}}).empty());
  CHECK(names({.passes = {"default", "extra"}, .disable_passes = {}}) == "first second extra ");
  CHECK(names({.passes = {"extra"}, .disable_passes = {}}) == "extra ");
  CHECK(names({.passes = {"default"}, .disable_passes = {"first"}}) == "second ");
  CHECK(names({.passes = {"default"}, .disable_passes = {"cudagraph"}}) == "first second ");
}

TEST_CASE("passes that round run only where rounding is allowed, and a note names those left out") {
  CHECK(names({.passes = {"default"}, .disable_passes = {}, .numerics = Numerics::rounds}) ==
        "first second rounding ");
  CHECK(select_passes(kTable, {}).notes ==
        std::vector<std::string>{
            "a pass that rounds is left out, since compile.numerics = \"exact\": rounding"});
  CHECK(error_of({.passes = {"rounding"}, .disable_passes = {}}) ==
        "compile.passes: rounding rounds; set compile.numerics = \"rounds\" to allow it");
}

TEST_CASE("a list in another order than the pipeline's is refused with the pass that must come first") {
  CHECK(error_of({.passes = {"extra", "first"}, .disable_passes = {}}) ==
        "compile.passes: first must come first, before extra; the pipeline's order is fixed (`rondo opt "
        "--list` shows it)");
  CHECK(error_of({.passes = {"first", "default", "extra"}, .disable_passes = {}}).empty());
}

TEST_CASE("a pass whose needs are not met names the pass that must come first") {
  constexpr std::array table = {
      PassInfo{.name = "giver", .run = &nothing, .gives = kGatheredOnce, .does = ""},
      PassInfo{.name = "taker", .run = &nothing, .needs = kGatheredOnce | kFunctional, .does = ""},
      PassInfo{.name = "writer", .run = &nothing, .breaks = kFunctional, .does = ""},
  };
  const auto problems = [&](std::vector<int> order) {
    std::vector<const PassInfo*> passes;
    for (int i : order) passes.push_back(&table[static_cast<std::size_t>(i)]);
    return order_problems(table, passes);
  };
  CHECK(problems({0, 1, 2}).empty());
  CHECK(problems({1, 0}) ==
        std::vector<std::string>{"taker needs one gather of each parameter a phase: giver must come first; "
                                 "name it in compile.passes and do not disable it"});
  CHECK(problems({0, 2, 1}) == std::vector<std::string>{"taker must come first, before writer, which leaves "
                                                        "no graph without overwrites"});
}

TEST_CASE("the pipeline's own order satisfies the needs of every pass") {
  std::vector<const PassInfo*> passes;
  for (const PassInfo& pass : all_passes()) passes.push_back(&pass);
  CHECK(order_problems(all_passes(), passes).empty());
}

TEST_CASE("all problems of the selection are reported at once") {
  CHECK(error_of({.passes = {"default", "extr"}, .disable_passes = {"second", "sixth"}}) ==
        "compile.passes: unknown pass \"extr\" (did you mean extra?); known are default, first, second, "
        "rounding, extra, "
        "cudagraph\n"
        "compile.disable_passes: unknown pass \"sixth\"; known are default, first, second, rounding, extra, "
        "cudagraph");
}

TEST_CASE("options are set by name from text, and an unknown option or value is an error") {
  CompileOptions options;
  options.set("numerics", "rounds");
  options.set("device", "cuda");
  options.set("reshard_after_forward", "never");
  options.set("cpu_offload_prefetch_n_layers", "3");
  options.set("memory_budget", "0.25");
  options.set("disable_passes", "reinplace");
  CHECK(options.numerics == Numerics::rounds);
  CHECK(options.device == TargetDevice::cuda);
  CHECK(options.reshard_after_forward == ReshardAfterForward::never);
  CHECK(options.cpu_offload_prefetch_n_layers == 3);
  CHECK(options.memory_budget == 0.25);
  CHECK(options.disable_passes == std::vector<std::string>{"reinplace"});
  const auto error_of = [&](const char* option, const char* value) {
    try {
      options.set(option, value);
    } catch (const Error& error) {
      CHECK(error.code() == ExitCode::config);
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(error_of("numerics", "fast") == "compile.numerics = \"fast\": must be one of exact, rounds");
  CHECK(error_of("cpu_offload_prefetch_n_layers", "3x") ==
        "cpu_offload_prefetch_n_layers = \"3x\" is not a number");
  CHECK(error_of("chunks", "3") == "unknown compile option \"chunks\"");
}

TEST_CASE("a pass that the device does not support is an error") {
  CHECK(error_of({.passes = {"cudagraph"}, .disable_passes = {}}) ==
        "compile.passes: cudagraph needs device cuda, and the run's is cpu; remove it");
  Graph graph = random_graph(1, 20);
  CHECK_THROWS_AS(run_pipeline(graph, {.passes = {"cudagraph"}, .disable_passes = {}}), Error);
}

TEST_CASE("a bare cudagraph means the default list and cudagraph") {
  CHECK(names({.passes = {"cudagraph"}, .disable_passes = {}, .device = TargetDevice::cuda}) ==
        "first second cudagraph ");
}

TEST_CASE("the report has the changes of each pass, and the dump sees every graph") {
  Graph graph = parse(
      "graph g\nbatch %0: f32[8] x\nforward\n  %1: f32[8] = aten.neg.default(%0)\n"
      "  %2: f32[8] = aten.neg.default(%0)\n  %3: f32[8] = aten.exp.default(%1)\n"
      "  %4: f32[8] = aten.exp.default(%2)\nreturn\n  y = %3\n",
      "x.ir");
  CompileOptions options;
  options.passes = {"canonicalize", "common_subexpressions", "eliminate_dead_code", "reinplace"};
  std::vector<std::string> dumped;
  const PipelineReport report =
      run_pipeline(graph, options, [&](std::string_view pass, const Graph&) { dumped.emplace_back(pass); });
  CHECK(dumped == options.passes);
  REQUIRE(report.passes.size() == 4);
  CHECK(report.passes[1].nodes_before == 5);
  CHECK(report.passes[1].nodes_after == 3);
  CHECK(report.passes[1].op_difference ==
        std::vector<std::pair<std::string, int>>{{"aten.exp.default", -1}, {"aten.neg.default", -1}});
  CHECK(report.passes.back().op_difference ==
        std::vector<std::pair<std::string, int>>{{"aten.exp.default", -1}, {"aten.exp_.default", 1}});
}

TEST_CASE("a pipeline of a plan verifies its last graph alone") {
  Graph graph = parse(
      "graph g\nbatch %0: f32[8] x\nforward\n  %1: f32[8] = aten.neg.default(%0)\n"
      "  %2: f32[8] = aten.exp.default(%1)\nreturn\n  y = %2\n  z = %1\n",
      "x.ir");
  CompileOptions options;
  options.passes = {"canonicalize", "reinplace"};
  CHECK_NOTHROW(run_pipeline(graph, options, {}, PipelineHalf::both, VerifyAfter::last_pass));
  graph.outputs[1].name = graph.outputs[0].name;
  const auto error_with = [&](VerifyAfter when) {
    try {
      run_pipeline(graph, options, {}, PipelineHalf::both, when);
    } catch (const Error& error) {
      CHECK(error.code() == ExitCode::graph);
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(error_with(VerifyAfter::each_change).find("outputs_are_whole after canonicalize:") !=
        std::string::npos);
  CHECK(error_with(VerifyAfter::last_pass).find("outputs_are_whole after all passes:") != std::string::npos);
}
