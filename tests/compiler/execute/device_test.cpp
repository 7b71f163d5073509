// Executors run on the device of the state: the CPU, a device whose memory the host cannot read,
// and meta tensors without memory.
#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <torch/library.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "compiler/execute/cpu_device.h"
#include "compiler/execute/cpu_memory.h"
#include "compiler/execute/planned_step.h"
#include "compiler/execute/replay.h"
#include "compiler/text/text.h"
#include "compiler/verify/verify.h"
#include "support/error.h"
#include "tests/compiler/execute/far_device.h"

namespace rondo {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
using Tensors = std::vector<at::Tensor>;

// A wrong op: its result is on the host for every operand.
at::Tensor ones_on_the_host(const at::Tensor& like) { return at::ones(like.sizes()); }
TORCH_LIBRARY(rondo_device_test, m) {
  m.def("ones_on_the_host(Tensor like) -> Tensor");
  m.impl("ones_on_the_host", c10::DispatchKey::CompositeExplicitAutograd, &ones_on_the_host);
}

// A factory, a number, and a transfer to the host and back.
constexpr std::string_view kGraph = R"(graph small

parameter %0: f32[8] w
batch %1: f32[8] x

forward layer
  %2: f32[8] = aten.full.default([8], 3, f32, .strided, .device, false)
  %3: f32[8] = aten.mul.Tensor(%1, wrapped(0.5))
  %4: host f32[8] = rondo.offload.default(%3)
  %5: host f32[8] views %4 = rondo.wait_transfer.default(%4)
update layer
  %6: f32[8] = rondo.reload.default(%5)
  %7: f32[8] views %6 = rondo.wait_transfer.default(%6)
  %8: f32[8] = aten.add.Tensor(%7, %2, 1)
  %9: f32[8] = aten.mul.Tensor(%0, %8)
return
  y = %8
  w = %9 -> w
)";

// A parameter in host memory, and other state on the device.
constexpr std::string_view kHostState = R"(graph host_state

parameter %0: host f32[8] w
buffer %1: f32[8] v
batch %2: f32[8] x

forward layer
  %3: f32[8] = rondo.reload.default(%0)
  %4: f32[8] views %3 = rondo.wait_transfer.default(%3)
  %5: f32[8] = aten.add.Tensor(%4, %1, 1)
update layer
  %6: f32[8] = aten.add.Tensor(%5, %2, 1)
  %7: host f32[8] = rondo.offload.default(%6)
  %8: host f32[8] views %7 = rondo.wait_transfer.default(%7)
return
  y = %6
  w = %8 -> w
)";

ir::Graph small_graph() {
  ir::Graph graph = ir::parse(std::string(kGraph), "small.ir");
  ir::verify(graph, "test");
  return graph;
}

at::Tensor vector(double value, c10::Device device = c10::kCPU) {
  return at::full({8}, value, at::TensorOptions().dtype(at::kFloat)).to(device);
}

StepFunction function_with(std::function<Tensors(const Tensors&)> body) {
  const ir::TensorType type = ir::contiguous(ir::DType::f32, {8});
  return {"small",
          {{"w", ir::InputKind::parameter, type},
           {"v", ir::InputKind::buffer, type},
           {"x", ir::InputKind::batch, type}},
          {{"y", -1}, {"new.w", 0}},
          std::move(body)};
}

}  // namespace

TEST_CASE(
    "a graph is interpreted on the device of its state, with its factories there and its host values on the "
    "host") {
  for (const c10::Device device : {c10::Device(c10::kCPU), far_device()}) {
    const at::Tensor w = vector(2, device);
    const Tensors results = make_interpreter(small_graph(), {w})->run({vector(4)});
    CHECK(results.at(0).device() == device);
    CHECK(at::equal(results[0].cpu(), vector(5)));
    CHECK(at::equal(w.cpu(), vector(10)));
  }
}

TEST_CASE("state in host memory is updated there, and the step runs on the device of the other state") {
  const ir::Graph graph = ir::parse(std::string(kHostState), "host.ir");
  ir::verify(graph, "test");
  const at::Tensor v = vector(1, far_device());
  {
    const at::Tensor w = vector(2);
    const Tensors results = make_interpreter(graph, {w, v})->run({vector(4)});
    CHECK(results.at(0).device() == far_device());
    CHECK(at::equal(results[0].cpu(), vector(7)));
    CHECK(at::equal(w, vector(7)));
  }
  const at::Tensor w = vector(2);
  const ir::MemoryPlan plan = ir::plan_memory(graph);
  CHECK(plan.host_arena_bytes == 0);
  char* const arena = reserve_far(static_cast<std::size_t>(plan.arena_bytes));
  {
    PlannedStep step(graph, plan, {far_device(), arena, nullptr}, {w, v});
    CHECK(step.state_bytes() == 0);
    for (const double expected : {7.0, 12.0}) {
      step.copy_batch_in({vector(4)});
      for (const auto& instruction : step.instructions()) {
        instruction->call();
        instruction->settle();
      }
      CHECK(at::equal(w, vector(expected)));
    }
  }
  release_far(arena);
  CHECK_THROWS_MATCHES(make_interpreter(graph, {vector(2, far_device()), v}), Error,
                       MessageMatches(ContainsSubstring("\"w\" must be in host memory, but is on far:0")));
}

TEST_CASE(
    "a planned step has its factories, views and batch on the device of its memory, and host values on the "
    "host") {
  const ir::Graph graph = small_graph();
  const ir::MemoryPlan plan = ir::plan_memory(graph);
  char* const arena = reserve_far(static_cast<std::size_t>(plan.arena_bytes));
  const cpu_memory::Arena host(static_cast<std::size_t>(plan.host_arena_bytes));
  const at::Tensor w = vector(2, far_device());
  {
    PlannedStep step(graph, plan, {far_device(), arena, host.data()}, {w});
    for (const double x : {4.0, 6.0}) {
      step.copy_batch_in({vector(x)});
      for (const auto& instruction : step.instructions()) {
        instruction->call();
        instruction->settle();
      }
      CHECK(at::equal(step.results().at(0).cpu(), vector(x / 2 + 3)));
    }
    CHECK(at::equal(w.cpu(), vector(2 * 5 * 6)));
  }
  release_far(arena);
}

TEST_CASE("state on two devices is refused with the names of two inputs") {
  const StepFunction function = function_with({});
  CHECK_THROWS_MATCHES(make_eager(function, {vector(1), vector(1, far_device())}), Error,
                       MessageMatches(ContainsSubstring("\"w\" is on cpu, but \"v\" is on far:0")));
}

TEST_CASE("state on another device than the memory of a plan is refused") {
  const ir::Graph graph = small_graph();
  const ir::MemoryPlan plan = ir::plan_memory(graph);
  const auto memory =
      std::make_shared<ReplayMemory>(make_cpu_device(), plan.arena_bytes, plan.host_arena_bytes);
  CHECK_THROWS_MATCHES(make_replay(graph, plan, memory, {vector(1, far_device())}), Error,
                       MessageMatches(ContainsSubstring("the state of small is on far:0")));
}

TEST_CASE("an op with a result on the host is named, with its module, unless the step runs there") {
  const ir::Graph graph = ir::parse(R"(graph small

parameter %0: f32[8] w

forward layer
  %1: f32[8] = rondo_device_test.ones_on_the_host.default(%0)
return
  y = %1
)",
                                    "small.ir");
  CHECK_NOTHROW(make_interpreter(graph, {vector(1)})->run({}));
  for (const c10::Device device : {c10::Device(c10::kMeta), far_device()})
    CHECK_THROWS_MATCHES(
        make_interpreter(graph, {vector(1, device)})->run({}), Error,
        MessageMatches(ContainsSubstring("ones_on_the_host.default (module \"layer\") put its "
                                         "result on cpu, but the step runs on " +
                                         device.str())));
}

TEST_CASE("a result of an eager step on the host is named, unless the step runs there") {
  const StepFunction of_result = function_with([](const Tensors& in) -> Tensors {
    return {at::ones({8}), in[0] + in[2]};
  });
  const StepFunction of_state = function_with([](const Tensors& in) -> Tensors {
    return {in[0] + in[2], at::ones({8})};
  });
  CHECK_NOTHROW(make_eager(of_result, {vector(1), vector(1)})->run({vector(1)}));
  for (const c10::Device device : {c10::Device(c10::kMeta), far_device()}) {
    const Tensors state = {vector(1, device), vector(1, device)};
    CHECK_THROWS_MATCHES(make_eager(of_result, state)->run({vector(1)}), Error,
                         MessageMatches(ContainsSubstring("result \"y\" of the step is on cpu")));
    CHECK_THROWS_MATCHES(make_eager(of_state, state)->run({vector(1)}), Error,
                         MessageMatches(ContainsSubstring("result \"new.w\" of the step is on cpu")));
  }
}

TEST_CASE("a step without state runs on the given device") {
  StepFunction function;
  function.name = "stateless";
  function.inputs = {{"x", ir::InputKind::batch, ir::contiguous(ir::DType::f32, {8})}};
  function.outputs = {{"y", -1}};
  function.body = [](const Tensors& in) -> Tensors { return {in[0] * 2}; };
  const Tensors results = make_eager(function, {}, far_device())->run({vector(1)});
  CHECK(results.at(0).device() == far_device());
}

}  // namespace rondo
