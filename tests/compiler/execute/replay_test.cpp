// The contract of replays with recordings (replay.h), on a device that records without a GPU. No
// test here covers CUDA.
#include "compiler/execute/replay.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <future>

#include "compiler/execute/cpu_memory.h"
#include "compiler/passes/passes.h"
#include "compiler/text/text.h"
#include "compiler/verify/verify.h"
#include "support/error.h"
#include "tests/compiler/execute/recording_device.h"

namespace rondo {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
using Tensors = std::vector<at::Tensor>;

// w (state) and x (batch), with a host read in the middle: masked_select with a mask that is true
// everywhere.
constexpr std::string_view kCutGraph = R"(graph small

parameter %0: f32[8] w
batch %1: f32[8] x

forward layer
  %2: f32[8] = aten.mul.Tensor(%0, %1)
  %3: f32[8] = aten.exp.default(%2)
  %4: b8[8] = aten.ge.Scalar(%3, 0)
forward layer.exchange
  %5: f32[8] = aten.masked_select.default(%3, %4)
backward layer
  %6: f32[8] = aten.neg.default(%5)
update
  %7: f32[8] writes %0 = aten.add_.Tensor(%0, %6, 1)
  %8: f32[] = aten.sum.default(%5, none)
return
  loss = %8
  w = %7 -> w
)";

// The updated parameter is copied, since the op does not write it in place.
constexpr std::string_view kWholeGraph = R"(graph whole

parameter %0: f32[8] w
batch %1: f32[8] x

forward
  %2: f32[8] = aten.mul.Tensor(%0, %1)
return
  y = %2
  w = %2 -> w
)";

at::Tensor vector(double value) { return at::full({8}, value, at::TensorOptions().dtype(at::kFloat)); }

ir::Graph marked(std::string_view text) {
  ir::Graph graph = ir::parse(text, "small.ir");
  ir::cudagraph(graph, {});
  ir::verify(graph, "cudagraph");
  return graph;
}

// A step on its own device. The log outlives both.
struct Bench {
  explicit Bench(std::string_view text = kCutGraph, double weight = 0.5)
      : w(vector(weight)), graph(marked(text)) {
    cpu_memory::install();
    device = std::make_shared<RecordingDevice>(log);
    make();
  }
  void make(StepWatch* watch = nullptr) {
    step.reset();
    const ir::MemoryPlan plan = ir::plan_memory(graph);
    step = make_replay(graph, plan, std::make_shared<ReplayMemory>(device, plan.arena_bytes), {w}, watch);
    log->clear();
  }
  // Destroys everything and returns the order.
  std::string end() {
    log->clear();
    step.reset();
    device.reset();
    return log->text();
  }

  std::shared_ptr<DeviceLog> log = std::make_shared<DeviceLog>();
  at::Tensor w;
  ir::Graph graph;
  std::shared_ptr<RecordingDevice> device;
  std::unique_ptr<Executor> step;
};

// Returns the results and the state after each of `steps` runs.
Tensors outcome(Executor& executor, const at::Tensor& w, int steps) {
  Tensors all;
  for (int step = 0; step < steps; ++step) {
    for (const at::Tensor& result : executor.run({vector(0.1 * step)})) all.push_back(result.clone());
    all.push_back(w.clone());
  }
  return all;
}

}  // namespace

TEST_CASE("run 1 is a real step, run 2 records without executing and launches, later runs launch") {
  Bench bench;
  bench.step->run({vector(1)});
  CHECK(bench.log->text() ==
        "enter, run aten.mul.Tensor, run aten.exp.default, run aten.ge.Scalar, count, "
        "run aten.masked_select.default, run aten.neg.default, run aten.add_.Tensor, run aten.sum.default, "
        "count, "
        "synchronize, leave");
  bench.log->clear();
  bench.step->run({vector(1)});
  CHECK(bench.log->text() ==
        "enter, begin, record aten.mul.Tensor, record aten.exp.default, record aten.ge.Scalar, record count, "
        "end 0, "
        "launch 0, run aten.masked_select.default, begin, record aten.neg.default, record aten.add_.Tensor, "
        "record aten.sum.default, record count, end 1, launch 1, leave");
  for (int i = 0; i < 3; ++i) {
    bench.log->clear();
    bench.step->run({vector(1)});
    CHECK(bench.log->text() == "enter, launch 0, run aten.masked_select.default, launch 1, leave");
  }
  CHECK(bench.log->violations.empty());
}

TEST_CASE("recorded steps give the bits of the interpreter") {
  const auto text = GENERATE(kCutGraph, kWholeGraph);
  Bench bench(text);
  const at::Tensor w = vector(0.5);
  const auto interpreter = make_interpreter(ir::parse(text, "small.ir"), {w});
  const Tensors expected = outcome(*interpreter, w, 5), recorded = outcome(*bench.step, bench.w, 5);
  REQUIRE(expected.size() == recorded.size());
  for (std::size_t i = 0; i < expected.size(); ++i) CHECK(at::equal(expected[i], recorded[i]));
}

TEST_CASE("only the batch is copied in; state stays in place and result tensors are reused") {
  Bench bench;
  const void* address = bench.w.const_data_ptr();
  const at::Tensor first = bench.step->run({vector(1)})[0];
  const at::Tensor third = (bench.step->run({vector(1)}), bench.step->run({vector(1)}))[0];
  CHECK(bench.w.const_data_ptr() == address);
  CHECK(first.const_data_ptr() == third.const_data_ptr());
  const ReplayStats& stats = *bench.step->stats();
  CHECK(stats.batch_bytes == 8 * 4);
  CHECK(stats.state_bytes == 0);
  CHECK(stats.segments == 2);
  CHECK(stats.recorded_ops == 6);
  CHECK(stats.instructions - stats.recorded_ops == 1);
  CHECK(stats.pool_bytes >= stats.arena_bytes);
  CHECK(stats.free_bytes_before - stats.free_bytes_after == 0);  // the arena exists before run 1
}

TEST_CASE("an out-of-place update of the state is copied inside of the recording") {
  Bench bench(kWholeGraph);
  bench.step->run({vector(1)});
  bench.log->clear();
  bench.step->run({vector(2)});
  CHECK(bench.log->text() ==
        "enter, begin, record aten.mul.Tensor, record return, record count, end 0, launch 0, leave");
  CHECK(at::equal(bench.w, vector(1)));
  CHECK(bench.step->stats()->segments == 1);
}

TEST_CASE("state that moved or changed, and a batch of another kind, are refused by name in every run") {
  Bench bench;
  const int runs = GENERATE(0, 1, 2, 4);
  for (int i = 0; i < runs; ++i) bench.step->run({vector(1)});
  const auto refused = [&](const Tensors& batch, const std::string& what) {
    CHECK_THROWS_MATCHES(bench.step->run(batch), Error, MessageMatches(ContainsSubstring(what)));
  };
  refused({vector(1).to(at::kDouble)}, "input \"x\" was traced as f32[8] strides [1], but is f64[8]");
  refused({}, "the batch has no input \"x\"");
  refused({at::Tensor()}, "small can be recorded only with dense tensors on cpu:\n  batch \"x\" is not set");
  refused({vector(1).to_sparse()}, "batch \"x\" is a sparse tensor");
  refused({vector(1).to(at::kMeta)}, "batch \"x\" is on device meta");
  bench.step->run({vector(1)});  // a refusal leaves the step unchanged

  const at::Tensor old = bench.w.detach();
  bench.w.set_data(vector(1));
  refused({vector(1)}, "state input \"w\" moved to another address");
  bench.w.set_data(old.view({2, 4}));
  refused({vector(1)}, "input \"w\" was traced as f32[8] strides [1], but is f32[2, 4]");
  bench.w.set_data(vector(1).to(at::kDouble));
  refused({vector(1)}, "but is f64[8]");
  bench.w.set_data(at::full({16}, 1.0, at::TensorOptions().dtype(at::kFloat)).slice(0, 0, 16, 2));
  refused({vector(1)}, "but is f32[8] strides [2]");
  CHECK(bench.log->violations.empty());
}

TEST_CASE("state that cannot be recorded is refused by name, and the pool is released") {
  Bench bench;
  const ir::MemoryPlan plan = ir::plan_memory(bench.graph);
  const auto refused = [&](const at::Tensor& w, const std::string& what) {
    const auto log = std::make_shared<DeviceLog>();
    auto device = std::make_shared<RecordingDevice>(log);
    CHECK_THROWS_MATCHES(
        make_replay(bench.graph, plan, std::make_shared<ReplayMemory>(device, plan.arena_bytes), {w}), Error,
        MessageMatches(ContainsSubstring(what)));
    CHECK(log->text() == "reserve, reserve, release_pool");
    device.reset();
    CHECK(log->violations.empty());
  };
  refused(at::Tensor(), "parameter \"w\" is not set");
  refused(vector(1).to_sparse(), "parameter \"w\" is a sparse tensor");
  refused(vector(1).to(at::kMeta), "parameter \"w\" is on device meta");
}

TEST_CASE("the first op that cannot be recorded is named with its module and the likely cause") {
  Bench bench;
  bench.step->run({vector(1)});
  bench.device->fail_at(
      "record aten.neg.default",
      "CUDA error: operation not permitted when stream is capturing\nCUDA kernel errors might ...");
  CHECK_THROWS_MATCHES(
      bench.step->run({vector(1)}), Error,
      MessageMatches(
          ContainsSubstring("segment 2 of 2 of small cannot be recorded: at aten.neg.default in layer "
                            "(backward): CUDA error: operation not permitted when stream is capturing; "
                            "likely cause: it waits for the device") &&
          ContainsSubstring("remove cudagraph from compile.passes") &&
          !ContainsSubstring("kernel errors might")));
  CHECK_THROWS_MATCHES(
      bench.step->run({vector(1)}), Error,
      MessageMatches(ContainsSubstring("small failed in an earlier run; further runs are refused")));
  CHECK(bench.end() == "synchronize, destroy 0, release_pool");
  CHECK(bench.log->violations.empty());
}

TEST_CASE("a recording that fails at its end names its last op") {
  Bench bench(kWholeGraph);
  bench.step->run({vector(1)});
  bench.device->fail_at("end 0", "operation failed due to a previous error during capture");
  CHECK_THROWS_MATCHES(bench.step->run({vector(1)}), Error,
                       MessageMatches(ContainsSubstring("at its end, after return")));
  CHECK(bench.log->count("abandon") == 1);
  CHECK(bench.end() == "synchronize, release_pool");
  CHECK(bench.log->violations.empty());
}

TEST_CASE("the causes of failed captures are recognized in the device's errors") {
  CHECK(likely_cause("Cannot copy between CPU and CUDA tensors during CUDA graph capture unless") ==
        "one of its tensors is on the CPU");
  CHECK(likely_cause("Expected all tensors to be on the same device. addmm: expected 'self' to be CUDA") ==
        "one of its tensors is on the CPU");
  CHECK(likely_cause("CUDA out of memory. Tried to allocate") ==
        "it allocates memory outside of the warmed-up pool");
  CHECK(likely_cause("operation would make the legacy stream depend on a capturing blocking stream") ==
        "it uses a stream that is not part of the recording");
  CHECK(likely_cause("operation not permitted when stream is capturing") ==
        "it waits for the device, or allocates memory outside of the pool");
  CHECK(likely_cause("something else") == "unknown; the op may run on the host");
}

TEST_CASE("recordings are destroyed before the pool, once each, however the step ends") {
  struct End {
    int runs;          // successful runs
    std::string call;  // the call that fails in the next one
    std::string order;
  };
  const End end = GENERATE(
      End{0, "", "synchronize, release_pool"}, End{1, "", "synchronize, release_pool"},
      End{2, "", "synchronize, destroy 0, destroy 1, release_pool"},
      End{7, "", "synchronize, destroy 0, destroy 1, release_pool"},
      End{0, "enter", "synchronize, release_pool"},
      End{0, "run aten.exp.default", "synchronize, release_pool"},
      End{0, "synchronize", "synchronize, release_pool"}, End{1, "begin", "synchronize, release_pool"},
      End{1, "record aten.mul.Tensor", "synchronize, release_pool"},
      End{1, "launch 0", "synchronize, destroy 0, release_pool"},
      End{1, "run aten.masked_select.default", "synchronize, destroy 0, release_pool"},
      End{1, "end 1", "synchronize, destroy 0, release_pool"},
      End{3, "launch 1", "synchronize, destroy 0, destroy 1, release_pool"},
      End{3, "run aten.masked_select.default", "synchronize, destroy 0, destroy 1, release_pool"});
  INFO(end.runs << " runs, then " << end.call);
  Bench bench;
  for (int i = 0; i < end.runs; ++i) bench.step->run({vector(1)});
  if (!end.call.empty()) {
    bench.device->fail_at(end.call, "the device failed");
    CHECK_THROWS_WITH(bench.step->run({vector(1)}), ContainsSubstring("the device failed"));
  }
  CHECK(bench.end() == end.order);
  CHECK(bench.log->violations.empty());
}

TEST_CASE("a device that fails in the final wait does not stop the teardown") {
  Bench bench;
  for (int i = 0; i < 2; ++i) bench.step->run({vector(1)});
  bench.device->fail_at("synchronize", "an illegal memory access was encountered");
  CHECK(bench.end() == "synchronize, destroy 0, destroy 1, release_pool");
}

TEST_CASE("steps that never run at the same time share a pool, which the last one releases") {
  Bench bench;
  const ir::MemoryPlan plan = ir::plan_memory(bench.graph);
  bench.step.reset();
  auto memory = std::make_shared<ReplayMemory>(bench.device, plan.arena_bytes);
  const at::Tensor a = vector(0.5), b = vector(0.25);
  auto first = make_replay(bench.graph, plan, memory, {a}),
       second = make_replay(bench.graph, plan, memory, {b});
  memory.reset();
  const at::Tensor c = vector(0.5), d = vector(0.25);
  const auto third = make_interpreter(bench.graph, {c}), fourth = make_interpreter(bench.graph, {d});
  for (int i = 0; i < 4; ++i) {
    CHECK(at::equal(first->run({vector(i)})[0], third->run({vector(i)})[0]));
    CHECK(at::equal(second->run({vector(i)})[0], fourth->run({vector(i)})[0]));
  }
  CHECK(at::equal(a, c));
  CHECK(at::equal(b, d));
  bench.log->clear();
  first.reset();
  CHECK(bench.log->text() == "synchronize, destroy 0, destroy 1");
  second.reset();
  CHECK(bench.log->text() ==
        "synchronize, destroy 0, destroy 1, synchronize, destroy 2, destroy 3, release_pool");
}

TEST_CASE(
    "without marked segments the host calls every op in every run, and the bits are those of the recorded "
    "step") {
  Bench recorded, called;
  const ir::Graph graph = ir::parse(kCutGraph, "small.ir");
  const ir::MemoryPlan plan = ir::plan_memory(graph);
  at::Tensor w = vector(0.5);
  const auto step =
      make_replay(graph, plan, std::make_shared<ReplayMemory>(called.device, plan.arena_bytes), {w});
  for (int i = 0; i < 3; ++i) CHECK(at::equal(step->run({vector(i)})[0], recorded.step->run({vector(i)})[0]));
  CHECK(at::equal(w, recorded.w));
  CHECK(called.log->count("begin") == 0);
  CHECK(called.log->count("launch") == 0);
  CHECK(step->stats()->segments == 0);
  CHECK(step->stats()->recorded_ops == 0);
  CHECK(step->stats()->instructions == recorded.step->stats()->instructions);
}

TEST_CASE("segments that do not match the graph are an internal error") {
  Bench bench;
  ir::Graph graph = bench.graph;
  graph.segments.front().end -= 1;
  const ir::MemoryPlan plan = ir::plan_memory(graph);
  CHECK_THROWS_WITH(
      make_replay(graph, plan, std::make_shared<ReplayMemory>(bench.device, plan.arena_bytes), {bench.w}),
      ContainsSubstring("are not those of the pass cudagraph"));
}

TEST_CASE("a segment that hangs is reported by its number") {
  Bench bench;
  std::promise<std::string> reported;
  StepWatch watch({.limit = std::chrono::milliseconds(20),
                   .first_limit = std::chrono::hours(1),
                   .interval = std::chrono::milliseconds(1)},
                  [&](const std::string& what) { reported.set_value(what); });
  watch.follow([device = bench.device] { return device->counted(); });
  bench.make(&watch);
  for (int i = 0; i < 3; ++i) {
    const StepWatch::Span step(watch, progress::Doing::training);
    bench.step->run({vector(1)});
  }
  bench.device->hang_at(1);
  const StepWatch::Span step(watch, progress::Doing::training);
  bench.step->run({vector(1)});
  CHECK_THAT(reported.get_future().get(), ContainsSubstring("has made no progress for ") &&
                                              ContainsSubstring(" s, in segment 2 of 2 of small"));
}

}  // namespace rondo
