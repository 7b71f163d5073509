// Muon's ops in a step: muon_momentum overwrites its momentums and returns new updates beside them.
#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>

#include <catch2/catch_test_macros.hpp>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "compiler/execute/cpu_device.h"
#include "compiler/execute/cpu_memory.h"
#include "compiler/execute/executor.h"
#include "compiler/execute/replay.h"
#include "compiler/passes/passes.h"
#include "compiler/trace/tracer.h"
#include "compiler/verify/verify.h"
#include "ops/muon/muon.h"

namespace rondo {
namespace {

using Tensors = std::vector<at::Tensor>;
using ir::DType, ir::InputKind;

// Two matrices. Updates in bf16 are squared in place of being orthogonalized.
StepFunction muon_function() {
  const auto f32 = [](std::vector<std::int64_t> sizes) {
    return ir::contiguous(DType::f32, std::move(sizes));
  };
  StepFunction f;
  f.name = "muon";
  f.inputs = {{"a", InputKind::parameter, f32({8, 8})},
              {"b", InputKind::parameter, f32({4, 40})},
              {"momentum.a", InputKind::optimizer, f32({8, 8})},
              {"momentum.b", InputKind::optimizer, f32({4, 40})},
              {"gradient.a", InputKind::batch, f32({8, 8})},
              {"gradient.b", InputKind::batch, f32({4, 40})},
              {"number", InputKind::batch, f32({})},
              {"found_inf", InputKind::batch, f32({})}};
  f.outputs = {{"new.a", 0}, {"new.b", 1}, {"new.momentum.a", 2}, {"new.momentum.b", 3}};
  f.body = [](const Tensors& in) -> Tensors {
    const Tensors momentums = {in[2], in[3]}, gradients = {in[4], in[5]}, parameters = {in[0], in[1]};
    auto [new_momentums, updates] =
        muon_momentum({momentums, gradients, in[6], in[7], in[6]}, MuonOptions(), at::kBFloat16);
    const Tensors squared = {updates[0] * updates[0], updates[1] * updates[1]};
    const Tensors results = muon_apply({parameters, squared, in[6], in[7], in[6]}, 0.1, {0.5, 0.7});
    return {results[0], results[1], new_momentums[0], new_momentums[1]};
  };
  return f;
}

Tensors muon_state() {
  at::manual_seed(5);
  return {at::randn({8, 8}), at::randn({4, 40}), at::randn({8, 8}), at::randn({4, 40})};
}

}  // namespace

TEST_CASE("eager, interpreted and replayed steps of Muon give the same bits, and overwrite its state") {
  cpu_memory::install();
  ir::Graph graph = trace(muon_function());
  ir::verify(graph, "trace");
  ir::reinplace(graph, CompileOptions());
  ir::verify(graph, "reinplace");
  std::set<std::string> ops;
  for (const ir::Node& node : graph.nodes) ops.insert(node.op);
  CHECK(ops.contains("rondo.muon_momentum_.default"));
  CHECK(ops.contains("rondo.muon_apply_.default"));
  const ir::MemoryPlan plan = ir::plan_memory(graph);
  const auto memory = std::make_shared<ReplayMemory>(make_cpu_device(), plan.arena_bytes);
  const Tensors eager_state = muon_state(), interpreted = muon_state(), replayed = muon_state();
  const auto eager = make_eager(muon_function(), eager_state),
             interpreter = make_interpreter(graph, interpreted),
             replay = make_replay(graph, plan, memory, replayed);
  for (int step = 1; step <= 3; ++step) {
    const Tensors batch = {at::randn({8, 8}), at::randn({4, 40}),
                           at::full({}, 0.1f * static_cast<float>(step)),
                           at::full({}, step == 2 ? 1.0f : 0.0f)};
    for (Executor* const executor : {eager.get(), interpreter.get(), replay.get()}) executor->run(batch);
    for (std::size_t i = 0; i < eager_state.size(); ++i) {
      CHECK(at::equal(interpreted[i], eager_state[i]));
      CHECK(at::equal(replayed[i], eager_state[i]));
    }
  }
  CHECK_FALSE(at::equal(eager_state[0], muon_state()[0]));
  CHECK(replay->stats()->state_bytes == 0);
  CHECK(replay->stats()->copied_results == 0);
}

}  // namespace rondo
