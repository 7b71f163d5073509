// Decisions of the memory policies; tests/compiler/passes/golden/recompute.ir tests the rewrite.
#include "compiler/analysis/memory_policy.h"

#include <fmt/format.h>

#include <catch2/catch_test_macros.hpp>

#include "compiler/analysis/forward_values.h"
#include "compiler/analysis/min_cut.h"
#include "compiler/text/text.h"
#include "compiler/verify/verify.h"
#include "support/error.h"
#include "support/text/wildcard.h"

using namespace rondo;
using namespace rondo::ir;

namespace {

// A residual block of a product, an activation twice as wide, and a product back; the backward
// reads inputs and outputs of all of them.
Graph blocks(int count) {
  std::string text = "graph g\n";
  for (int i = 0; i < count; ++i) text += fmt::format("block layers.{}\n", i);
  text += "parameter %0: f32[64,128] up\nparameter %1: f32[128,64] down\nbatch %2: f32[32,64] x\n";
  int next = 3, input = 2;
  std::vector<std::array<int, 4>> blocks;  // input, wide, activated, narrow
  for (int i = 0; i < count; ++i) {
    const int wide = next++, activated = next++, narrow = next++, output = next++;
    text += fmt::format("forward layers.{}\n", i);
    text += fmt::format("  %{}: f32[32,128] = aten.mm.default(%{}, %0)\n", wide, input);
    text += fmt::format("  %{}: f32[32,128] = aten.silu.default(%{})\n", activated, wide);
    text += fmt::format("  %{}: f32[32,64] = aten.mm.default(%{}, %1)\n", narrow, activated);
    text += fmt::format("  %{}: f32[32,64] = aten.add.Tensor(%{}, %{}, 1)\n", output, input, narrow);
    blocks.push_back({input, wide, activated, narrow});
    input = output;
  }
  for (int i = count - 1; i >= 0; --i) {
    const auto [from, wide, activated, narrow] = blocks[static_cast<std::size_t>(i)];
    text += fmt::format("backward layers.{}\n", i);
    text += fmt::format("  %{}: f32[32,128] = aten.mul.Tensor(%{}, %{})\n", next++, wide, activated);
    text += fmt::format("  %{}: f32[32,64] = aten.mul.Tensor(%{}, %{})\n", next++, from, narrow);
  }
  text += fmt::format("return\n  y = %{}\n", input);
  for (int i = 0; i < count; ++i)
    text += fmt::format("  a{} = %{}\n  b{} = %{}\n", i, next - 1 - 2 * i, i, next - 2 - 2 * i);
  Graph graph = parse(text, "blocks.ir");
  verify(graph, "parse");
  return graph;
}

constexpr std::int64_t kNarrow = 32 * 64 * 4, kWide = 2 * kNarrow;  // bytes

std::int64_t saved_bytes(const Graph& graph, const std::string& policy, double budget = 0.5) {
  CompileOptions options;
  options.set("memory_policy", policy);
  options.memory_budget = budget;
  return plan_recompute(graph, decide_memory(graph, options).recompute).saved_bytes;
}

std::string error_of(const Graph& graph, const CompileOptions& options) {
  try {
    decide_memory(graph, options);
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::config);
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("the policies save from all values down to the outputs of blocks") {
  const Graph graph = blocks(3);
  const std::int64_t leaves =
      2 * kNarrow;  // the outputs of the first two blocks; the first input is the batch
  CHECK(saved_bytes(graph, "none") == leaves + 3 * (2 * kWide + kNarrow));
  CHECK(saved_bytes(graph, "default") == leaves + 3 * (kWide + kNarrow));
  CHECK(saved_bytes(graph, "sac_and_offload") == saved_bytes(graph, "default"));
  CHECK(saved_bytes(graph, "min_cut") == saved_bytes(graph, "default"));
  CHECK(saved_bytes(graph, "eager") == leaves + 3 * kWide);
  CHECK(saved_bytes(graph, "full") == leaves);
}

TEST_CASE("a budget saves at most its share of the bytes between full and none") {
  const Graph graph = blocks(4);
  CHECK(saved_bytes(graph, "budget", 0) == saved_bytes(graph, "full"));
  CHECK(saved_bytes(graph, "budget", 1) == saved_bytes(graph, "none"));
  std::int64_t last = 0;
  for (double share : {0.0, 0.1, 0.25, 0.4, 0.6, 0.8, 1.0}) {
    const std::int64_t bytes = saved_bytes(graph, "budget", share);
    const double limit = static_cast<double>(saved_bytes(graph, "full")) +
                         share * static_cast<double>(saved_bytes(graph, "none") - saved_bytes(graph, "full"));
    INFO(share);
    CHECK(static_cast<double>(bytes) <= limit);
    CHECK(bytes >= last);
    last = bytes;
  }
  CHECK(saved_bytes(graph, "budget", 0.4) > saved_bytes(graph, "full"));
}

TEST_CASE("a budget below the bytes that are always saved is refused with the minimum") {
  CompileOptions options;
  options.memory_policy = MemoryPolicy::budget;
  options.memory_budget_gib = 1e-6;
  CHECK(error_of(blocks(8), options) ==
        "compile.memory_budget_gib = 1e-06 must be at least 5.341e-05, the bytes of g that are always saved; "
        "use a "
        "smaller batch or a shorter sequence");
}

TEST_CASE("policy full saves the selected ops, and a selector without a match is an error") {
  const Graph graph = blocks(3);
  CompileOptions options;
  options.memory_policy = MemoryPolicy::full;
  options.full_recompute_save_ops = {"layers.*::aten.silu.default"};
  CHECK(plan_recompute(graph, decide_memory(graph, options).recompute).saved_bytes ==
        2 * kNarrow + 3 * kWide);
  options.full_recompute_save_ops = {"layers.9::aten.silu.default"};
  CHECK(error_of(graph, options) ==
        "compile.full_recompute_save_ops: \"layers.9::aten.silu.default\" matches no node of a block in g; "
        "give MODULE_PATTERN::aten.OP.OVERLOAD, as in the graph's text (compile.dump)");
  options.is_stage = true;  // the match may be in another stage
  CHECK(
      decide_memory(graph, options).notes ==
      std::vector<std::string>{"compile.full_recompute_save_ops: \"layers.9::aten.silu.default\" matches no "
                               "node of a block in g"});
}

TEST_CASE("an unknown policy is an error that lists the known ones") {
  const auto error_of = [](const char* policy) {
    try {
      CompileOptions().set("memory_policy", policy);
    } catch (const Error& error) {
      CHECK(error.code() == ExitCode::config);
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(error_of("eager").empty());
  CHECK(error_of("most") ==
        "compile.memory_policy = \"most\": must be one of none, default, eager, min_cut, budget, full, "
        "sac_and_offload");
}

TEST_CASE("a minimum cut is cheapest, and nearest to the sinks among equal ones") {
  MinCut chain(4);  // 0 -> 1 -> 2 -> 3, with capacities 9, 2, 5, 2
  for (const auto& [node, capacity] : {std::pair(0, 9), {1, 2}, {2, 5}, {3, 2}})
    chain.set_capacity(static_cast<std::size_t>(node), capacity);
  for (std::size_t i = 0; i < 3; ++i) chain.connect(i, i + 1);
  chain.source(0);
  chain.sink(3);
  CHECK(chain.behind_cut() == std::vector<bool>{false, false, false, false});  // 3 itself is cut

  MinCut diamond(4);  // 0 -> {1, 2} -> 3: the two in the middle are cheaper than either end
  for (const auto& [node, capacity] : {std::pair(0, 9), {1, 3}, {2, 4}, {3, 8}})
    diamond.set_capacity(static_cast<std::size_t>(node), capacity);
  for (std::size_t middle : {1u, 2u}) {
    diamond.connect(0, middle);
    diamond.connect(middle, 3);
  }
  diamond.source(0);
  diamond.sink(3);
  CHECK(diamond.behind_cut() == std::vector<bool>{false, false, false, true});

  MinCut free(2);  // no source reaches 1: nothing need be cut for it
  free.set_capacity(0, 5);
  free.set_capacity(1, 5);
  free.source(0);
  free.sink(1);
  CHECK(free.behind_cut() == std::vector<bool>{false, true});
}

TEST_CASE("a star matches any text, and a pattern matches a whole name") {
  CHECK(matches_wildcard("layers.*.attention", "layers.12.attention"));
  CHECK(matches_wildcard("*norm*", "layers.0.attention_norm.weight"));
  CHECK(matches_wildcard("*", ""));
  CHECK(matches_wildcard("a*b*c", "aXbYbZc"));
  CHECK_FALSE(matches_wildcard("layers.*", "tok_embeddings.weight"));
  CHECK_FALSE(matches_wildcard("attention", "layers.0.attention"));
  CHECK_FALSE(matches_wildcard("a*b", "abc"));
  CHECK_FALSE(matches_wildcard("", "a"));
  CHECK_FALSE(matches_wildcard(std::string(64, '*') + "b", std::string(4096, 'a')));
}

TEST_CASE("an all-to-all is recomputed only on request") {
  const Graph graph = parse(
      "graph g\nblock layers.0\nbatch %0: f32[32,64] x\nbatch %1: i32[2,2] sent\n"
      "forward layers.0\n"
      "  %2: f32[48,64] = rondo.all_to_all_tokens.default(%0, %1, %1, %1, false, 48, \"ep\")\n"
      "  %3: f32[48,64] = aten.silu.default(%2)\n"
      "backward layers.0\n"
      "  %4: f32[48,64] = aten.mul.Tensor(%2, %3)\n"
      "return\n  y = %4\n",
      "all_to_all.ir");
  verify(graph, "parse");
  CompileOptions options;
  options.memory_policy = MemoryPolicy::full;
  const auto again = [&] { return plan_recompute(graph, decide_memory(graph, options).recompute).again; };
  CHECK_FALSE(again()[NodeIndex(0)]);
  options.recompute_all_to_all = true;
  CHECK(again()[NodeIndex(0)]);
}
