// Errors of the tracer and the contract of the executors, on small functions.
#include "compiler/execute/executor.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/nonzero.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/sum.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "compiler/compile.h"
#include "compiler/execute/cpu_device.h"
#include "compiler/execute/cpu_memory.h"
#include "compiler/trace/tracer.h"
#include "compiler/verify/verify.h"
#include "support/error.h"
#include "support/scope.h"

namespace rondo {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
using Tensors = std::vector<at::Tensor>;

// w (state) and x (batch), both 8 x 8: returns sum(silu(x w)) and updates w to w - 0.1 x.
StepFunction small_function() {
  StepFunction f;
  f.name = "small";
  f.inputs = {{"w", ir::InputKind::parameter, ir::contiguous(ir::DType::f32, {8, 8})},
              {"x", ir::InputKind::batch, ir::contiguous(ir::DType::f32, {8, 8})}};
  f.outputs = {{"loss", -1}, {"new.w", 0}};
  f.body = [](const Tensors& in) -> Tensors {
    const ModuleScope scope("layer");
    const at::Tensor h = at::silu(at::mm(in[1], in[0]));
    return {h.sum(), in[0] - in[1] * 0.1};
  };
  return f;
}

StepFunction with_body(std::function<Tensors(const Tensors&)> body) {
  StepFunction f = small_function();
  f.body = std::move(body);
  return f;
}

std::unique_ptr<Executor> replay_of(const StepFunction& f, const Tensors& state) {
  const ir::Graph graph = trace(f);
  const ir::MemoryPlan plan = ir::plan_memory(graph);
  return make_replay(graph, plan, std::make_shared<ReplayMemory>(make_cpu_device(), plan.arena_bytes), state);
}

at::Tensor matrix(double value) { return at::full({8, 8}, value, at::TensorOptions().dtype(at::kFloat)); }

}  // namespace

TEST_CASE("a captured constant tensor is refused by op and module") {
  const at::Tensor constant = at::ones({8, 8});
  const StepFunction f = with_body([&](const Tensors& in) -> Tensors {
    const ModuleScope scope("rope");
    return {(in[1] + constant).sum(), in[0]};
  });
  CHECK_THROWS_MATCHES(trace(f), Error,
                       MessageMatches(ContainsSubstring("aten.add.Tensor in module \"rope\"") &&
                                      ContainsSubstring("constant tensor that is not an input")));
}

TEST_CASE("an op whose result depends on data is refused") {
  const StepFunction f = with_body([](const Tensors& in) -> Tensors {
    const ModuleScope scope("router");
    return {at::nonzero(in[1]).sum(), in[0]};
  });
  CHECK_THROWS_MATCHES(trace(f), Error,
                       MessageMatches(ContainsSubstring("aten.nonzero.default in module \"router\"") &&
                                      ContainsSubstring("shape rule")));
}

TEST_CASE("a host read is refused") {
  const StepFunction f = with_body([](const Tensors& in) -> Tensors {
    const double on_host = in[1].sum().item<double>();
    return {in[1] * on_host, in[0]};
  });
  CHECK_THROWS_AS(trace(f), Error);
}

TEST_CASE("a refused trace leaves no state, so the next one works") {
  CHECK_THROWS_AS(trace(with_body([](const Tensors& in) -> Tensors {
                    return {at::nonzero(in[1]), in[0]};
                  })),
                  Error);
  CHECK_NOTHROW(ir::verify(trace(small_function()), "trace"));
}

TEST_CASE("nodes have their module and views have their base") {
  const ir::Graph graph = trace(small_function());
  REQUIRE(graph.nodes.size() > 3);
  CHECK(graph.nodes[0].op == "aten.mm.default");
  CHECK(graph.nodes[0].module == "layer");
  CHECK(graph.nodes[0].phase == Phase::forward);
}

TEST_CASE("a replay writes state in place, at its own address") {
  cpu_memory::install();
  const at::Tensor w = matrix(1.0);
  const void* address = w.const_data_ptr();
  const auto replay = replay_of(small_function(), {w});
  replay->run({matrix(2.0)});
  CHECK(w.const_data_ptr() == address);
  CHECK(at::equal(w, matrix(1.0) - matrix(2.0) * 0.1));
}

TEST_CASE("from the second run on a replay allocates only the handles of its results from the heap") {
  cpu_memory::install();
  const auto replay = replay_of(small_function(), {matrix(1.0)});
  const at::Tensor x = matrix(2.0);
  replay->run({x});
  const std::int64_t live = cpu_memory::live_bytes();
  cpu_memory::reset_peak();
  for (int i = 0; i < 3; ++i) replay->run({x});
  CHECK(cpu_memory::live_bytes() == live);
  CHECK(cpu_memory::peak_bytes() == live);
}

TEST_CASE(
    "a replay on the CPU records nothing and reports calls and copies; an interpreter reports nothing") {
  cpu_memory::install();
  const auto replay = replay_of(small_function(), {matrix(1.0)});
  for (int i = 0; i < 2; ++i) replay->run({matrix(2.0)});
  const ReplayStats& stats = *replay->stats();
  CHECK(stats.segments == 0);
  CHECK(stats.recorded_ops == 0);
  CHECK(stats.instructions == 6);  // mm, silu, sum, mul, sub, and the copy of the new w
  CHECK(stats.batch_bytes == 8 * 8 * 4);
  CHECK(stats.state_bytes == 8 * 8 * 4);
  CHECK(stats.pool_bytes >= stats.arena_bytes);
  CHECK(make_interpreter(trace(small_function()), {matrix(1.0)})->stats() == nullptr);
}

TEST_CASE("state that moved, and a batch of another shape or dtype, are refused by name") {
  cpu_memory::install();
  const at::Tensor w = matrix(1.0);
  const auto replay = replay_of(small_function(), {w});
  CHECK_THROWS_MATCHES(replay->run({at::ones({8, 9})}), Error,
                       MessageMatches(ContainsSubstring("input \"x\" was traced as f32[8, 8]")));
  CHECK_THROWS_MATCHES(replay->run({matrix(1).to(at::kDouble)}), Error,
                       MessageMatches(ContainsSubstring("f64[8, 8]")));
  CHECK_THROWS_MATCHES(replay->run({matrix(1).t()}), Error,
                       MessageMatches(ContainsSubstring("strides [1, 8]")));
  CHECK_THROWS_MATCHES(replay->run({}), Error,
                       MessageMatches(ContainsSubstring("the batch has no input \"x\"")));
  w.set_data(matrix(1.0));
  CHECK_THROWS_MATCHES(replay->run({matrix(1.0)}), Error,
                       MessageMatches(ContainsSubstring("\"w\" moved to another address")));
}

TEST_CASE("two replays that share memory do not disturb each other's state") {
  cpu_memory::install();
  const ir::Graph graph = trace(small_function());
  const ir::MemoryPlan plan = ir::plan_memory(graph);
  const auto memory = std::make_shared<ReplayMemory>(make_cpu_device(), plan.arena_bytes);
  const at::Tensor a = matrix(1.0), b = matrix(5.0);
  const auto first = make_replay(graph, plan, memory, {a}), second = make_replay(graph, plan, memory, {b});
  first->run({matrix(1.0)});
  second->run({matrix(1.0)});
  first->run({matrix(1.0)});
  CHECK(at::equal(b, matrix(5.0) - matrix(1.0) * 0.1));
  CHECK(at::equal(a, (matrix(1.0) - matrix(1.0) * 0.1) - matrix(1.0) * 0.1));
}

TEST_CASE("an arena with unreleased memory is not freed") {
  cpu_memory::install();
  const std::int64_t before = cpu_memory::live_bytes();
  at::Tensor held;
  {
    const cpu_memory::Arena arena(1 << 12);
    const PlacedResult place{arena.data(), 64 * sizeof(float)};
    const cpu_memory::ResultPlacement placement({&place, 1}, {});
    held = at::empty({64});
    CHECK(arena.blocks() == 1);
    CHECK(held.const_data_ptr() == arena.data());
  }
  held.fill_(1);
  CHECK(cpu_memory::live_bytes() == before + (1 << 12));
  held.reset();
}

TEST_CASE("an arena's memory is counted and freed") {
  cpu_memory::install();
  const std::int64_t before = cpu_memory::live_bytes();
  {
    const cpu_memory::Arena arena(1 << 20);
    CHECK(cpu_memory::live_bytes() == before + (1 << 20));
  }
  CHECK(cpu_memory::live_bytes() == before);
}

}  // namespace rondo
