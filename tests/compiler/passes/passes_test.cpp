// Properties of passes that hold for every graph, tested on random ones.
// tests/compiler/passes/golden tests what each pass does.
#include "compiler/passes/passes.h"

#include <catch2/catch_test_macros.hpp>
#include <map>
#include <random>
#include <set>
#include <utility>

#include "compiler/ops/op.h"
#include "compiler/passes/pipeline.h"
#include "compiler/plan/memory_plan.h"
#include "compiler/text/text.h"
#include "compiler/verify/verify.h"
#include "support/error.h"
#include "tests/compiler/passes/random_graph.h"

using namespace rondo;
using namespace rondo::ir;

namespace {

constexpr std::uint64_t kGraphs = 1500;
// Passes that pack into one collective or fuse into one op, which gives another expression in
// symbolic_run; fuzz_passes_test executes them.
bool repacks(const PassInfo& pass) {
  return pass.numerics == Numerics::rounds || pass.name == "transformer_block_bucketing" ||
         pass.name == "auto_bucketing";
}
// Passes that do nothing under the default options or without replicas, or whose patterns are rare
// or absent in random graphs.
bool finds_nothing(const PassInfo& pass) {
  return pass.name.starts_with("fuse_") || pass.name == "offload" || pass.name == "separate_gather_group" ||
         pass.name == "bucket_replica_sums" || pass.name == "overlap_microbatches" ||
         pass.name == "choose_matmul_algorithms" || pass.name == "quantize_before_gather" ||
         pass.name == "async_tensor_parallel" || pass.name == "update_in_backward" ||
         pass.name == "state_on_host";
}
int size_of(std::uint64_t seed) { return 5 + static_cast<int>(seed % 150); }

}  // namespace

TEST_CASE("a random graph is valid, and prints and parses back") {
  for (std::uint64_t seed = 0; seed < kGraphs; ++seed) {
    INFO("seed " << seed);
    const Graph graph = random_graph(seed, size_of(seed));
    REQUIRE_NOTHROW(verify(graph, "generation"));
    const std::string text = print(graph);
    const Graph back = parse(text, "random.ir");
    REQUIRE(print(back) == text);
    REQUIRE(symbolic_run(back) == symbolic_run(graph));
  }
}

TEST_CASE("every pass alone leaves a valid graph that computes the same") {
  std::map<std::string_view, int> changed;
  for (std::uint64_t seed = 0; seed < kGraphs; ++seed) {
    const Graph graph = random_graph(seed, size_of(seed));
    const std::string original = print(graph);
    const auto expected = symbolic_run(graph);
    for (const PassInfo& pass : all_passes()) {
      INFO("seed " << seed << ", " << pass.name << "\n" << original);
      Graph after = graph;
      std::string text = original;
      for (const PassInfo* one : with_prerequisites(pass)) {
        const std::string before = std::exchange(text, {});
        const bool unchanged = one->run(after, {}).unchanged;
        REQUIRE_NOTHROW(verify(after, one->name));
        text = print(after);
        CHECK((!unchanged || text == before));  // the pipeline skips the verifier if unchanged
      }
      if (!repacks(pass)) REQUIRE(symbolic_run(after) == expected);
      changed[pass.name] += text != original;
    }
  }
  for (const PassInfo& pass : all_passes()) {
    INFO(pass.name);
    if (pass.run != nullptr && !finds_nothing(pass))
      CHECK(changed[pass.name] > static_cast<int>(kGraphs) / 20);
  }
}

TEST_CASE("every subset of the passes leaves a graph that computes the same, or names the missing pass") {
  int refused = 0, ran = 0;
  for (std::uint64_t seed = 0; seed < kGraphs; ++seed) {
    const Graph graph = random_graph(seed, size_of(seed));
    const auto expected = symbolic_run(graph);
    std::mt19937_64 random(seed);
    CompileOptions options;
    std::vector<const PassInfo*> chosen;
    for (const PassInfo& pass : all_passes()) {
      if (pass.numerics != Numerics::exact) continue;
      if (!repacks(pass) && random() % 3 != 0)
        chosen.push_back(&pass);
      else
        options.disable_passes.emplace_back(pass.name);
    }
    INFO("seed " << seed << "\n" << print(graph));
    Graph after = graph;
    if (!order_problems(all_passes(), chosen).empty()) {
      REQUIRE_THROWS_AS(run_pipeline(after, options), Error);
      ++refused;
      continue;
    }
    REQUIRE_NOTHROW(run_pipeline(after, options));
    REQUIRE(symbolic_run(after) == expected);
    ++ran;
  }
  CHECK(ran > refused);
}

TEST_CASE("a fusion reports how many it made of each kind") {
  Graph graph = parse(R"(graph notes
batch %0: f32[6,4] x
batch %1: f32[6,4] of_attention
batch %2: f32[4] weight
batch %3: f32[6,4] grad
batch %4: f32[6,4] of_sum
forward layers.0
  %5: f32[6,4] = aten.add.Tensor(%0, %1, 1)
  %6: f32[6,4], %7: f32[6,1] = rondo.rms_norm.default(%5, %2, 1e-05)
forward layers.1
  %8: f32[6,4] = aten.add.Tensor(%5, %6, 1)
  %9: f32[6,4], %10: f32[6,1] = rondo.rms_norm.default(%8, %2, 1e-05)
backward layers.0
  %11: f32[6,4], %12: f32[4] = rondo.rms_norm_backward.default(%3, %5, %2, %7)
  %13: f32[6,4] = aten.add.Tensor(%11, %4, 1)
return
  y = %9
  grad_x = %13
  grad_weight = %12
)",
                      "notes.ir");
  CHECK(fuse_add_rms_norm(graph, {}) ==
        Notes{"fused 2 sums with norms", "fused 1 sums with the backward of norms"});
}

TEST_CASE("reordering never raises the planned memory, and often lowers it") {
  int lowered = 0;
  for (std::uint64_t seed = 0; seed < kGraphs; ++seed) {
    INFO("seed " << seed);
    const Graph graph = random_graph(seed, size_of(seed));
    const auto plan_of = [&](const CompileOptions& options) {
      Graph after = graph;
      run_pipeline(after, options);
      return plan_memory(after);
    };
    CompileOptions without;
    without.disable_passes = {"reorder_for_memory"};
    const MemoryPlan before = plan_of(without), after = plan_of({});
    REQUIRE(after.live_peak_bytes <= before.live_peak_bytes);
    REQUIRE(after.arena_bytes <= before.arena_bytes);
    lowered += after.live_peak_bytes < before.live_peak_bytes;
  }
  CHECK(lowered > static_cast<int>(kGraphs) / 20);
}

// Except for reordering, which starts from the current order.
TEST_CASE("the pipeline twice is the pipeline once") {
  for (std::uint64_t seed = 0; seed < kGraphs / 4; ++seed) {
    INFO("seed " << seed);
    Graph graph = random_graph(seed, size_of(seed));
    CompileOptions options;
    options.disable_passes = {"reinplace", "reorder_for_memory", "transformer_block_bucketing"};
    options.reshard_after_forward = ReshardAfterForward::always;  // the last bucket may change
    run_pipeline(graph, options);
    const std::string once = print(graph);
    run_pipeline(graph, options);
    REQUIRE(print(graph) == once);
  }
}

TEST_CASE("a write that the storage model misses is detected: skipping the guard changes the symbols") {
  Graph graph = parse(
      "graph g\nbatch %0: f32[8] x\nforward\n  %1: f32[8] = aten.neg.default(%0)\n"
      "  %2: f32[8] = aten.exp.default(%1)\n  %3: f32[8] = aten.add.Tensor(%1, %2, 1)\nreturn\n  y = %3\n",
      "x.ir");
  const auto right = symbolic_run(graph);
  graph.nodes[1].op = "aten.exp_.default";
  graph.value(2).writes = 1;
  CHECK(symbolic_run(graph) != right);
  CHECK_THROWS(verify(graph, "a broken pass"));
}

TEST_CASE(
    "op facts name each op once, in-place forms differ from their ops and nothing is both view and effect") {
  std::set<std::string_view> names;
  for (const Op& op : all_ops()) {
    INFO(op.name);
    CHECK(names.insert(op.name).second);
    if (op.overwritten > 0) CHECK(&functional_facts(in_place_name(op)) == &op);
    CHECK((op.view == ViewKind::none || op.effect == Effect::none));
    CHECK((op.flops == nullptr) == (op.cost == nullptr));
    CHECK(&facts(op.name) == &op);
  }
  CHECK(facts("aten.gelu.default").effect == Effect::none);
  CHECK(facts("aten.mul.Scalar").overwritten == 0);
}

TEST_CASE("flops count two for a multiply-add") {
  const Graph graph = parse(
      "graph g\nbatch %0: f32[4,8] a\nbatch %1: f32[8,16] b\nbatch %2: f32[3,4,8] c\nbatch %3: f32[3,8,16] "
      "d\n"
      "batch %4: f32[16] bias\nbatch %5: bf16[2,6,10,4] q\nbatch %6: bf16[2,3,10,4] k\nbatch %7: i32[3] "
      "offsets\n"
      "forward\n"
      "  %10: f32[4,16] = aten.mm.default(%0, %1)\n"
      "  %11: f32[3,4,16] = aten.bmm.default(%2, %3)\n"
      "  %12: f32[4,16] = aten.addmm.default(%4, %0, %1, 1, 1)\n"
      "  %13: bf16[2,6,10,4], %14: f32[2,6,10] = rondo.attention.default(%5, %6, %6, none, 0.5)\n"
      "  %15: f32[4,16] = aten._grouped_mm.default(%0, %3, %7, none, none)\n"
      "  %16: f32[4,8] = aten.exp.default(%0)\n"
      "  %17: bf16[2,6,10,4], %18: bf16[2,3,10,4], %19: bf16[2,3,10,4] = "
      "rondo.attention_backward.default(%13, %5, %6, %6, %13, "
      "%14, none, 0.5)\nreturn\n",
      "x.ir");
  const Graph heads = parse(
      "graph g\nbatch %0: bf16[6,8] h\nbatch %1: bf16[10,8] w\nbatch %2: i64[6] labels\nbatch %3: f32[] "
      "scale\n"
      "batch %4: f32[6,1] rows\nbatch %5: i64[6,1] place\nforward\n"
      "  %10: f32[6], %11: bf16[6,8], %12: f32[10,8], %13: bf16[2,10] = "
      "rondo.linear_cross_entropy.default(%0, %1, %2, %3, -100, 2)\n"
      "  %14: f32[6], %15: bf16[2,10] = rondo.linear_cross_entropy_losses.default(%0, %1, %2, -100, 2)\n"
      "  %16: f32[6], %17: f32[6], %18: f32[6,1], %19: bf16[2,10] = "
      "rondo.linear_cross_entropy_statistics.default(%0, %1, %5, 2)\n"
      "  %20: bf16[6,8], %21: f32[10,8], %22: bf16[2,10] = "
      "rondo.linear_cross_entropy_gradients.default(%0, %1, %5, %4, %4, %4, %4, 2)\nreturn\n",
      "x.ir");
  const double product = 2 * 6 * 8 * 10;
  for (const auto& [node, products] : {std::pair{0, 3}, {1, 1}, {2, 1}, {3, 3}})
    CHECK(flops(heads, heads.nodes[static_cast<std::size_t>(node)]) == products * product);
  const auto count = [&](std::size_t node) { return flops(graph, graph.nodes[node]); };
  CHECK(count(0) == 2 * 4 * 8 * 16);
  CHECK(count(1) == 3 * 2 * 4 * 8 * 16);
  CHECK(count(2) == 2 * 4 * 8 * 16);
  constexpr double kPairs = 10 * 11 / 2;  // of a causal mask
  CHECK(count(3) == 2 * 6 * (2 * 2 * kPairs * 4));
  CHECK(count(4) == 2 * 4 * 8 * 16);
  CHECK(count(5) == 0);
  CHECK(count(6) == 2.5 * 2 * 6 * (2 * 2 * kPairs * 4));
}
