// Eager, interpreted and replayed steps take the same bf16 products on a processor without AVX-512.
// ctest sets ATEN_CPU_CAPABILITY=avx2 for this file.
#include <ATen/TensorOperators.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/tensor.h>
#include <torch/csrc/autograd/autograd.h>

#include <catch2/catch_test_macros.hpp>

#include "compiler/compile.h"
#include "compiler/execute/cpu_device.h"
#include "compiler/execute/cpu_memory.h"
#include "compiler/trace/tracer.h"
#include "ops/grouped_mm/grouped_linear.h"
#include "ops/matmul/bf16_matmul.h"

namespace rondo {
namespace {

using Tensors = std::vector<at::Tensor>;

// Products of a linear layer, of a batch, of experts, and their gradients. Sizes need several
// tiles.
StepFunction bf16_step() {
  const auto bf16 = [](std::vector<std::int64_t> sizes) { return ir::contiguous(ir::DType::bf16, sizes); };
  StepFunction f;
  f.name = "bf16_step";
  f.inputs = {{"w", ir::InputKind::parameter, bf16({96, 80})},
              {"experts", ir::InputKind::parameter, bf16({3, 96, 80})},
              {"x", ir::InputKind::batch, bf16({200, 80})},
              {"ends", ir::InputKind::batch, ir::contiguous(ir::DType::i32, {3})}};
  f.outputs = {{"loss", -1}, {"new.w", 0}, {"new.experts", 1}};
  f.body = [](const Tensors& in) -> Tensors {
    const at::Tensor w = in[0].detach().requires_grad_(true), experts = in[1].detach().requires_grad_(true);
    const at::Tensor h = at::silu(at::linear(in[2], w)) + grouped_linear(in[2], experts, in[3]);
    const at::Tensor scores = at::bmm(h.view({2, 100, 96}), h.view({2, 100, 96}).transpose(1, 2));
    const Tensors gradients = torch::autograd::grad({scores.sum()}, {w, experts});
    return {scores.sum(), at::addmm(in[0], gradients[0], in[0].t().mm(in[0]), 1, 1e-3),
            in[1] - gradients[1] * 1e-3};
  };
  return f;
}

}  // namespace

TEST_CASE("every executor takes the same bf16 products, with the same bits") {
  if (!widens_bf16_products()) SKIP("set ATEN_CPU_CAPABILITY=avx2 on this processor");
  cpu_memory::install();
  const StepFunction f = bf16_step();
  const Tensors initial = {at::randn({96, 80}).to(at::kBFloat16), at::randn({3, 96, 80}).to(at::kBFloat16)},
                batch = {at::randn({200, 80}).to(at::kBFloat16),
                         at::tensor(std::vector<std::int32_t>{70, 70, 190}, at::kInt)};
  const auto fresh = [&] { return Tensors{initial[0].clone(), initial[1].clone()}; };

  const ir::Graph graph = trace(f);
  const ir::MemoryPlan plan = ir::plan_memory(graph);
  const Tensors eager_state = fresh(), interpreter_state = fresh(), replay_state = fresh();
  const auto eager = make_eager(f, eager_state), interpreter = make_interpreter(graph, interpreter_state),
             replay =
                 make_replay(graph, plan, std::make_shared<ReplayMemory>(make_cpu_device(), plan.arena_bytes),
                             replay_state);
  const auto run = [&](Executor& executor) {
    const std::int64_t before = widened_products();
    const Tensors results = executor.run(batch);
    return std::pair(results[0].clone(), widened_products() - before);
  };
  for (int step = 0; step < 3; ++step) {
    const auto [loss, products] = run(*eager);
    CHECK(products >= 10);
    for (const auto& [executor, state] :
         {std::pair(interpreter.get(), &interpreter_state), std::pair(replay.get(), &replay_state)}) {
      const auto [other_loss, other_products] = run(*executor);
      CHECK(other_products == products);
      CHECK(at::equal(other_loss, loss));
      CHECK(at::equal((*state)[0], eager_state[0]));
      CHECK(at::equal((*state)[1], eager_state[1]));
    }
  }
  CHECK(replay->stats()->heap_bytes == 0);
}

}  // namespace rondo
