// Kernels may allocate their results in any order; a replay has each at its planned address.
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <fmt/format.h>
#include <torch/library.h>

#include <catch2/catch_test_macros.hpp>
#include <tuple>

#include "compiler/execute/cpu_device.h"
#include "compiler/execute/cpu_memory.h"
#include "compiler/execute/replay.h"
#include "compiler/text/text.h"
#include "compiler/verify/verify.h"

namespace rondo {
namespace {

using at::Tensor;

// Returns x, 2 x and 3 x. Requests memory for the last one first.
std::tuple<Tensor, Tensor, Tensor> backwards(const Tensor& x) {
  Tensor three = at::empty_like(x), two = at::empty_like(x), one = at::empty_like(x);
  return {one.copy_(x), two.copy_(x * 2), three.copy_(x * 3)};
}
TORCH_LIBRARY(rondo_placed_test, m) {
  m.def("backwards(Tensor x) -> (Tensor, Tensor, Tensor)");
  m.impl("backwards", c10::DispatchKey::CompositeExplicitAutograd, &backwards);
}

std::unique_ptr<Executor> replay_of(const std::string& text, std::vector<Tensor> state) {
  cpu_memory::install();
  const ir::Graph graph = ir::parse(text, "small.ir");
  ir::verify(graph, "test");
  const ir::MemoryPlan plan = ir::plan_memory(graph);
  return make_replay(graph, plan, std::make_shared<ReplayMemory>(make_cpu_device(), plan.arena_bytes),
                     std::move(state));
}

Tensor filled(double value) { return at::full({64}, value, at::TensorOptions().dtype(at::kFloat)); }

TEST_CASE(
    "results of one size requested in reverse order are correct at once, and in place from the second step "
    "on") {
  const auto replay = replay_of(R"(graph small

parameter %0: f32[64] w
batch %1: f32[64] x

forward
  %2: f32[64], %3: f32[64], %4: f32[64] = rondo_placed_test.backwards.default(%1)
return
  one = %2
  two = %3
  three = %4
)",
                                {filled(0)});
  for (const int step : {1, 2, 3}) {
    const std::vector<Tensor> results = replay->run({filled(step)});
    CHECK(at::equal(results.at(0), filled(step)));
    CHECK(at::equal(results.at(1), filled(2 * step)));
    CHECK(at::equal(results.at(2), filled(3 * step)));
    CHECK(replay->stats()->copied_results == (step == 1 ? 2 : 0));  // the middle one is in place
  }
}

TEST_CASE("each of two hundred results of an op is at its planned address") {
  std::string results, returned, sizes;
  for (int i = 0; i < 200; ++i) {
    results += fmt::format("{}%{}: f32[{}]", i == 0 ? "" : ", ", i + 2, i % 7 + 1);
    sizes += fmt::format("{}{}", i == 0 ? "" : ", ", i % 7 + 1);
    returned += fmt::format("  y{} = %{}\n", i, i + 2);
  }
  std::int64_t length = 0;
  for (int i = 0; i < 200; ++i) length += i % 7 + 1;
  const auto replay =
      replay_of(fmt::format("graph small\n\nparameter %0: f32[8] w\nbatch %1: f32[{}] x\n\nforward\n  {} = "
                            "aten.split_with_sizes_copy.default(%1, [{}], 0)\nreturn\n{}",
                            length, results, sizes, returned),
                {at::full({8}, 0.0, at::TensorOptions().dtype(at::kFloat))});
  replay->run({at::full({length}, 1.0, at::TensorOptions().dtype(at::kFloat))});
  CHECK(replay->stats()->copied_results == 0);
}

}  // namespace
}  // namespace rondo
