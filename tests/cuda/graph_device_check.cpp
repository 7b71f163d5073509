// Checks the contract of recorded steps (compiler/execute/replay.h) on a real device:
// graph_device_check --device=cuda. With --device=cpu it tests itself on the recording device of
// the tests. tests/compiler/execute/replay_test.cpp covers faults that a GPU does not produce on
// request.
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Generator.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>
#include <fmt/format.h>
#include <torch/library.h>

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/execute/replay.h"
#include "compiler/passes/passes.h"
#include "compiler/plan/memory_plan.h"
#include "compiler/text/text.h"
#include "compiler/verify/verify.h"
#include "tests/cuda/checks.h"
#ifdef USE_C10D_NCCL
#include "compiler/execute/cuda/cuda_device.h"
#include "compiler/execute/cuda/placing_allocator.h"
#endif
#include "compiler/execute/cpu_memory.h"
#include "tests/compiler/execute/recording_device.h"

namespace rondo {
namespace {

using at::Tensor;
using Tensors = std::vector<Tensor>;

constexpr std::int64_t kElements = 1 << 16;

// w (state) and x (batch). masked_select reads its all-true mask on the host, which makes two
// segments.
constexpr std::string_view kCut = R"(graph cut

parameter %0: f32[65536] w
batch %1: f32[65536] x

forward layer
  %2: f32[65536] = aten.mul.Tensor(%0, %1)
  %3: f32[65536] = aten.exp.default(%2)
  %4: b8[65536] = aten.ge.Scalar(%3, 0)
forward layer.exchange
  %5: f32[65536] = aten.masked_select.default(%3, %4)
backward layer
  %6: f32[65536] = aten.neg.default(%5)
update
  %7: f32[65536] writes %0 = aten.add_.Tensor(%0, %6, 0.001)
  %8: f32[] = aten.sum.default(%5, none)
return
  loss = %8
  w = %7 -> w
)";

constexpr std::string_view kWhole = R"(graph whole

parameter %0: f32[65536] w
batch %1: f32[65536] x

forward
  %2: f32[65536] = aten.mul.Tensor(%0, %1)
return
  y = %2
  w = %2 -> w
)";

constexpr std::string_view kRandom = R"(graph random

parameter %0: f32[65536] w
batch %1: f32[65536] x

forward
  %2: f32[65536] = aten.rand_like.default(%1, none, none, none, none, none)
  %3: f32[65536] = aten.mul.Tensor(%2, %0)
  %4: f32[65536] = aten.rand_like.default(%1, none, none, none, none, none)
  %5: f32[65536] = aten.add.Tensor(%3, %4, 1)
return
  y = %5
)";

// An op that waits for the device and is in no list of such ops.
constexpr std::string_view kWaiting = R"(graph waiting

parameter %0: f32[65536] w
batch %1: f32[65536] x

forward layer
  %2: f32[65536] = aten.mul.Tensor(%0, %1)
forward layer.waits
  %3: f32[65536] = rondo.wait_for_device.default(%2)
return
  y = %3
)";

constexpr std::string_view kRefusal = "operation not permitted when stream is capturing";

// --- a step on a device ---

class Bench {
 public:
  explicit Bench(c10::Device device) : device_(device) { cpu_memory::install(); }

  std::shared_ptr<ReplayDevice> replay_device() const {
#ifdef USE_C10D_NCCL
    if (device_.is_cuda()) return cuda::make_device(device_.index());
#endif
    require(device_.is_cpu(), "this build has no CUDA");
    return std::make_shared<RecordingDevice>(std::make_shared<DeviceLog>());
  }
  Tensor vector(double value, std::int64_t elements = kElements) const {
    return at::full({elements}, value, at::TensorOptions().dtype(at::kFloat).device(device_));
  }
  bool is_gpu() const { return device_.is_cuda(); }

 private:
  c10::Device device_;
};

ir::Graph marked(std::string_view text) {
  ir::Graph graph = ir::parse(text, "check.ir");
  ir::cudagraph(graph, {});
  ir::verify(graph, "cudagraph");
  return graph;
}

struct Step {
  Step(const std::shared_ptr<ReplayDevice>& device, std::string_view text, const Tensor& w)
      : graph(marked(text)) {
    const ir::MemoryPlan plan = ir::plan_memory(graph);
    replay = make_replay(graph, plan, std::make_shared<ReplayMemory>(device, plan.arena_bytes), {w});
  }
  Tensors run(const Tensors& batch) const { return replay->run(batch); }

  ir::Graph graph;
  std::unique_ptr<Executor> replay;
};

Tensors copies(const Tensors& tensors) {
  Tensors all;
  for (const Tensor& tensor : tensors) all.push_back(tensor.clone());
  return all;
}

// Returns results and state of several runs of a recorded or an interpreted step.
Tensors outcome(Executor& executor, const Bench& bench, const Tensor& w, int runs) {
  Tensors all;
  for (int i = 0; i < runs; ++i) {
    for (Tensor& result : copies(executor.run({bench.vector(0.1 * i)}))) all.push_back(std::move(result));
    all.push_back(w.clone());
  }
  return all;
}

std::size_t differing(const Tensors& a, const Tensors& b) {
  require(a.size() == b.size(), "as many results");
  std::size_t count = 0;
  for (std::size_t i = 0; i < a.size(); ++i) count += at::equal(a[i], b[i]) ? 0 : 1;
  return count;
}

template <class Function>
std::string message_of(const Function& function) {
  try {
    function();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}
void require_part(const std::string& text, const std::string& part) {
  require(text.find(part) != std::string::npos,
          fmt::format("expected \"{}\" in: {}", part, text.empty() ? "no error" : text));
}

// --- the cases ---

Figures same_as_interpreter(const Bench& bench, std::string_view text) {
  constexpr int kRuns = 6;
  const Tensor w = bench.vector(0.5), v = bench.vector(0.5);
  const Step step(bench.replay_device(), text, w);
  const auto interpreter = make_interpreter(ir::parse(text, "check.ir"), {v});
  const Tensors recorded = outcome(*step.replay, bench, w, kRuns);
  require(differing(recorded, outcome(*interpreter, bench, v, kRuns)) == 0, "results or state differ");
  const ReplayStats& stats = *step.replay->stats();
  return {{"runs", kRuns},
          {"segments", stats.segments},
          {"warm_up_ms", stats.warm_up_ms},
          {"capture_ms", stats.capture_ms}};
}

Figures addresses(const Bench& bench) {
  const Tensor w = bench.vector(0.5);
  const Step step(bench.replay_device(), kCut, w);
  const void* const state = w.const_data_ptr();
  const void* const first = step.run({bench.vector(1)})[0].const_data_ptr();
  step.run({bench.vector(1)});
  require(step.run({bench.vector(1)})[0].const_data_ptr() == first, "results are used again");
  require(w.const_data_ptr() == state, "state stays where it is");
  const ReplayStats& stats = *step.replay->stats();
  require(stats.batch_bytes == kElements * 4 && stats.state_bytes == 0, "the batch is all that is copied");
  return {{"copied_bytes", stats.batch_bytes},
          {"planned_bytes", stats.arena_bytes},
          {"pool_bytes", stats.pool_bytes}};
}

Figures refusals(const Bench& bench) {
  Tensor w = bench.vector(0.5);
  const Step step(bench.replay_device(), kCut, w);
  const auto refused = [&](const Tensors& batch, const std::string& part) {
    require_part(message_of([&] { step.run(batch); }), part);
  };
  int count = 0;
  for (int runs = 0; runs < 4; ++runs) {
    refused({bench.vector(1).to(at::kDouble)},
            "input \"x\" was traced as f32[65536] strides [1], but is f64[65536]");
    refused({bench.vector(1, 8)}, "input \"x\" was traced as f32[65536] strides [1], but is f32[8]");
    refused({}, "the batch has no input \"x\"");
    const Tensor old = w.detach();
    w.set_data(bench.vector(1));
    refused({bench.vector(1)}, "state input \"w\" moved to another address");
    w.set_data(old);
    step.run({bench.vector(1)});  // a refusal does not change the step
    count += 4;
  }
  return {{"refusals", count}};
}

Figures random_numbers(const Bench& bench) {
  constexpr int kRuns = 5;
  const Tensor w = bench.vector(0.5);
  at::manual_seed(7);
  const auto interpreter = make_interpreter(ir::parse(kRandom, "check.ir"), {w});
  const Tensors expected = outcome(*interpreter, bench, w, kRuns);
  at::manual_seed(7);
  const Step step(bench.replay_device(), kRandom, w);
  const Tensors recorded = outcome(*step.replay, bench, w, kRuns);
  require(!at::equal(recorded[4], recorded[6]), "two launches draw the same numbers");
  require(differing(recorded, expected) == 0, "launches draw other numbers than the interpreter");
  return {{"runs", kRuns}};
}

Figures failed_capture(const Bench& bench) {
  const auto device = bench.replay_device();
  const Tensor w = bench.vector(0.5);
  std::string message;
  {
    const Step step(device, kWaiting, w);
    step.run({bench.vector(1)});
    if (!bench.is_gpu())
      static_cast<RecordingDevice&>(*device).fail_at("record rondo.wait_for_device.default",
                                                     std::string(kRefusal));
    message = message_of([&] { step.run({bench.vector(1)}); });
    require_part(message,
                 "segment 1 of 1 of waiting cannot be recorded: at rondo.wait_for_device.default in "
                 "layer.waits (forward)");
    require_part(message, "likely cause: it waits for the device");
    require_part(message_of([&] { step.run({bench.vector(1)}); }), "failed in an earlier run");
  }
  at::rand({8}, at::TensorOptions().device(device->device()));  // its generator draws on
  const Step next(device, kWhole, w);                           // the device still works
  for (int i = 0; i < 3; ++i) next.run({bench.vector(1)});
  require(at::equal(w, bench.vector(0.5)), "a step after a failed recording is right");
  return {{"message", message.substr(0, message.find('\n'))}};
}

Figures teardown(const Bench& bench) {
  const auto device = bench.replay_device();
  const Tensor w = bench.vector(0.5);
  std::int64_t before = 0;
  for (int round = 0; round < 6; ++round) {  // the first round warms up libraries
    if (round == 1) before = device->free_bytes();
    const Step step(device, kCut, w);
    for (int i = 0; i < round; ++i) step.run({bench.vector(1)});
  }
  const std::int64_t lost = before - device->free_bytes();
  require(lost <= 4 << 20, fmt::format("{} bytes of the device are lost after 5 steps that ended", lost));
  return {{"lost_bytes", lost}};
}

Figures taking_turns(const Bench& bench) {
  const auto device = bench.replay_device();
  const Tensor a = bench.vector(0.5), b = bench.vector(0.25), c = bench.vector(0.5), d = bench.vector(0.25);
  const ir::Graph graph = marked(kCut);
  const ir::MemoryPlan plan = ir::plan_memory(graph);
  const auto memory = std::make_shared<ReplayMemory>(device, plan.arena_bytes);
  const auto first = make_replay(graph, plan, memory, {a}), second = make_replay(graph, plan, memory, {b});
  const auto third = make_interpreter(ir::parse(kCut, "check.ir"), {c}),
             fourth = make_interpreter(ir::parse(kCut, "check.ir"), {d});
  for (int i = 0; i < 5; ++i) {
    require(at::equal(first->run({bench.vector(i)})[0], third->run({bench.vector(i)})[0]),
            "the first step differs");
    require(at::equal(second->run({bench.vector(i)})[0], fourth->run({bench.vector(i)})[0]),
            "the second step differs");
  }
  require(at::equal(a, c) && at::equal(b, d), "state differs");
  return {};
}

// The counter for monitors: it increases by one when the device has completed a segment.
Figures progress(const Bench& bench) {
  const auto device = bench.replay_device();
  const Tensor w = bench.vector(0.5);
  const Step step(device, kCut, w);
  for (int i = 0; i < 3; ++i) step.run({bench.vector(1)});
  device->enter();
  device->synchronize();
  device->leave();
  const std::int64_t before = device->counted();
  for (int i = 0; i < 4; ++i) step.run({bench.vector(1)});
  device->enter();
  device->synchronize();
  device->leave();
  require(device->counted() - before == 8, fmt::format("{} instead of 8", device->counted() - before));
  return {{"counted", device->counted() - before}};
}

Tensor wait_for_device(const Tensor& x) { return x + x.sum().item<float>() * 0; }
Tensor like(const Tensor& x) { return at::empty_like(x); }

}  // namespace

TORCH_LIBRARY_FRAGMENT(rondo, m) { m.def("wait_for_device(Tensor x) -> Tensor"); }
TORCH_LIBRARY_IMPL(rondo, CPU, m) { m.impl("wait_for_device", &wait_for_device); }
TORCH_LIBRARY_IMPL(rondo, CUDA, m) { m.impl("wait_for_device", &wait_for_device); }
TORCH_LIBRARY_IMPL(rondo, Meta, m) { m.impl("wait_for_device", &like); }

}  // namespace rondo

int main(int argc, char** argv) {
  try {
    const auto [device, group] = rondo::check_words(argc, argv);
    if (!group.empty()) throw std::runtime_error("there are no groups here");
#ifdef USE_C10D_NCCL
    if (device.is_cuda()) rondo::cuda::install_placing_allocator();
#endif
    const rondo::Bench bench(device);
    rondo::Checks checks;
    checks.run("one segment: recorded == interpreter",
               [&] { return same_as_interpreter(bench, rondo::kWhole); });
    checks.run("two segments: recorded == interpreter",
               [&] { return same_as_interpreter(bench, rondo::kCut); });
    checks.run("state and results stay where they are", [&] { return addresses(bench); });
    checks.run("what moved or changed is refused by name", [&] { return refusals(bench); });
    checks.run("random numbers: recorded == interpreter", [&] { return random_numbers(bench); });
    checks.run("steps that take turns share a pool", [&] { return taking_turns(bench); });
    checks.run("the device counts its segments", [&] { return progress(bench); });
    checks.run("teardown gives the memory back", [&] { return teardown(bench); });
    checks.run("a failed recording names op, module and cause", [&] { return failed_capture(bench); });
    return checks.exit_code();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "graph_device_check: error: %s\n", error.what());
    return 2;
  }
}
