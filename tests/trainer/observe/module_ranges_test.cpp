// Tests the ranges of a profile around the parts of a step, through LibTorch's NVTX interface.
#include "trainer/observe/module_ranges.h"

#include <ATen/record_function.h>
#include <torch/csrc/profiler/stubs/base.h>

#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "compiler/execute/run_observer.h"

namespace rondo {
namespace {

using Words = std::vector<std::string>;

// Replaces CUDA's stubs: records every push as "a > b".
class Marks final : public torch::profiler::impl::ProfilerStubs {
 public:
  void record(c10::DeviceIndex*, torch::profiler::impl::ProfilerVoidEventStub*,
              std::int64_t*) const override {}
  float elapsed(const torch::profiler::impl::ProfilerVoidEventStub*,
                const torch::profiler::impl::ProfilerVoidEventStub*) const override {
    return 0;
  }
  void mark(const char*) const override {}
  void rangePush(const char* name) const override {
    open.emplace_back(name);
    std::string path;
    for (const std::string& one : open) path += (path.empty() ? "" : " > ") + one;
    pushed.push_back(path);
  }
  void rangePop() const override { open.pop_back(); }
  bool enabled() const override { return on; }
  void onEachDevice(std::function<void(int)>) const override {}
  void synchronize() const override {}

  mutable Words open, pushed;
  bool on = true;
};

Marks& marks() {
  static Marks one;
  torch::profiler::impl::registerCUDAMethods(&one);
  one.open.clear();
  one.pushed.clear();
  one.on = true;
  return one;
}

ir::Graph graph() {
  ir::Graph g;
  g.name = "train_step";
  const auto add = [&](const std::string& op, Phase phase, const std::string& module,
                       std::vector<ir::Argument> args = {}) {
    const ir::ValueId id = g.add_value({ir::contiguous(ir::DType::f32, {8})});
    g.nodes.push_back({op, std::move(args), {id}, phase, module, ""});
  };
  add("aten.mm.default", Phase::forward, "layers.0.attention.wq");
  add("aten.mm.default", Phase::forward, "layers.0.attention.wk");
  add("_c10d_functional.all_gather_into_tensor.default", Phase::forward, "layers.1",
      {ir::Use{0}, std::int64_t{2}, std::string("dp")});
  add("aten.mm.default", Phase::backward, "layers.1");
  g.nodes.push_back({std::string(ir::kReturn), {}, {}, Phase::update, "", ""});
  return g;
}

void run(const ir::Graph& graph) {
  const ObservedRun observed(graph);
  for (const ir::Node& node : graph.nodes) observed.reached(node);
}

TEST_CASE("a number in a module's path belongs to the name before it") {
  CHECK(module_levels("layers.0.attention.wq") ==
        Words{"layers.0", "layers.0.attention", "layers.0.attention.wq"});
  CHECK(module_levels("norm") == Words{"norm"});
  CHECK(module_levels("").empty());
}

TEST_CASE("a step's ranges are function, phase, modules and collectives, nested in this order") {
  Marks& seen = marks();
  {
    const ModuleRanges ranges;
    run(graph());
  }
  CHECK(seen.pushed == Words{"train_step", "train_step > forward", "train_step > forward > layers.0",
                             "train_step > forward > layers.0 > layers.0.attention",
                             "train_step > forward > layers.0 > layers.0.attention > layers.0.attention.wq",
                             "train_step > forward > layers.0 > layers.0.attention > layers.0.attention.wk",
                             "train_step > forward > layers.1",
                             "train_step > forward > layers.1 > all_gather_into_tensor dp 32 bytes",
                             "train_step > backward", "train_step > backward > layers.1"});
  CHECK(seen.open.empty());
}

TEST_CASE("an eager run's ranges follow its scopes") {
  Marks& seen = marks();
  {
    const ModuleRanges ranges;
    const ObservedRun observed(std::string("train_step"));
    {
      const BlockScope block("layers.0");
      const ModuleScope module("mlp");
    }
    const PhaseScope backward(Phase::backward);
  }
  CHECK(seen.pushed == Words{"train_step", "train_step > forward", "train_step > forward > layers.0",
                             "train_step > forward > layers.0 > layers.0.mlp", "train_step > backward"});
  CHECK(seen.open.empty());
}

TEST_CASE("a pipeline's actions are ranges around the functions that they run") {
  Marks& seen = marks();
  ir::Graph forward = graph();
  forward.nodes.erase(forward.nodes.begin() + 1, forward.nodes.end());
  {
    const ModuleRanges ranges;
    {
      const ObservedAction action([] { return std::string("1F3"); });
      run(forward);
    }
    const ObservedAction message([] { return std::string("1SEND_F3"); });
  }
  CHECK(seen.pushed ==
        Words{"1F3", "1F3 > train_step", "1F3 > train_step > forward",
              "1F3 > train_step > forward > layers.0",
              "1F3 > train_step > forward > layers.0 > layers.0.attention",
              "1F3 > train_step > forward > layers.0 > layers.0.attention > layers.0.attention.wq",
              "1SEND_F3"});
  CHECK(seen.open.empty());
  const ObservedAction unseen([]() -> std::string { throw std::logic_error("nobody asks for its name"); });
}

TEST_CASE("without a profile a run opens no range and runs no LibTorch observer") {
  Marks& seen = marks();
  { const ModuleRanges over; }
  run(graph());
  { const ObservedRun observed(std::string("train_step")); }
  const ModuleScope module("layers.0");
  CHECK(seen.pushed.empty());
  CHECK_FALSE(at::getStepCallbacksUnlessEmpty(at::RecordScope::FUNCTION).has_value());
}

TEST_CASE("without a GPU nothing is pushed") {
  Marks& seen = marks();
  seen.on = false;
  {
    const ModuleRanges ranges;
    run(graph());
  }
  CHECK(seen.pushed.empty());
}

}  // namespace
}  // namespace rondo
