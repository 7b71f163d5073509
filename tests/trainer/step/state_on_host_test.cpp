// Tests state in host memory: what a rank keeps where, what a step copies, and that it changes no
// bit.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "compiler/plan/report/memory_report.h"
#include "tests/trainer/step/trained_steps.h"

namespace rondo {
namespace {

const SmallJob::Flags kOnHost = {"--training.enable_cpu_offload=true"};

SmallJob::Flags with(SmallJob::Flags flags, const SmallJob::Flags& more) {
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

}  // namespace

TEST_CASE("a step with its state in host memory has the bits of one without") {
  const std::string model = GENERATE("llama3", "deepseek_v3");
  const std::string eager = trained_steps(model, {}, ExecutorKind::eager);
  for (const SmallJob::Flags& more :
       {SmallJob::Flags{}, {"--compile.memory_policy=full"}, {"--compile.memory_policy=sac_and_offload"}}) {
    INFO(model << " " << fmt::format("{}", fmt::join(more, " ")));
    CHECK(trained_steps(model, with(kOnHost, more), ExecutorKind::replay) == eager);
  }
  CHECK(trained_steps(model, kOnHost, ExecutorKind::interpreter) == eager);
}

TEST_CASE("the sums of two microbatches update state in host memory as they do on the device") {
  const SmallJob::Flags sums = {"--training.global_batch_size=4"};
  CHECK(trained_steps("llama3", with(kOnHost, sums), ExecutorKind::replay, 2) ==
        trained_steps("llama3", sums, ExecutorKind::replay, 2));
}

TEST_CASE("early updates of state in host memory have the bits of updates at the end on the device") {
  const SmallJob::Flags no_clip = {"--training.max_norm=inf"};
  const SmallJob::Flags early = with(no_clip, {"--optimizer.early_step_in_backward=true"});
  CHECK(trained_steps("llama3", with(kOnHost, early), ExecutorKind::replay) ==
        trained_steps("llama3", no_clip, ExecutorKind::replay));
}

TEST_CASE("parameters and moments are in host memory, a few buckets of them on the device") {
  const SmallJob::Flags layers = {"--model.n_layers=8"};
  const SmallJob device_job("llama3", 1, layers), host_job("llama3", 1, with(kOnHost, layers));
  const StepProgram on_device = device_job.compile(ExecutorKind::replay);
  const StepProgram on_host = host_job.compile(ExecutorKind::replay);
  const ir::MemoryReport& before = on_device.at("train_step").report().memory;
  const ir::MemoryReport& after = on_host.at("train_step").report().memory;
  const auto state = [](const auto& bytes) {
    return bytes[static_cast<std::size_t>(ir::InputKind::parameter)] +
           bytes[static_cast<std::size_t>(ir::InputKind::optimizer)];
  };
  CHECK(state(before.host_input_bytes) == 0);
  CHECK(state(after.input_bytes) + state(after.host_input_bytes) == state(before.input_bytes));
  CHECK(state(after.input_bytes) < state(before.input_bytes) / 100);
  CHECK(after.total_bytes() < before.total_bytes());
  // The tensors on the device are small; each of the others is reloaded for the update.
  std::int64_t offloads = 0, on_host_inputs = 0;
  const ir::Graph& graph = on_host.at("train_step").graph();
  for (const ir::Input& input : graph.inputs) {
    const ir::Value& value = graph.value(input.value);
    on_host_inputs += value.on_host;
    if (!value.on_host && input.kind == ir::InputKind::parameter) CHECK(ir::storage_bytes(value.type) < 4096);
  }
  for (const ir::Node& node : graph.nodes) offloads += node.op == "rondo.offload.default";
  CHECK(on_host_inputs > 0);
  CHECK(offloads == on_host_inputs);
}

TEST_CASE("an update in host memory is written in its place, and nothing is copied afterwards") {
  const SmallJob job("llama3", 1, kOnHost);
  const StepProgram compiled = job.compile(ExecutorKind::replay);
  TrainState state = job.state(compiled, c10::kCPU);
  StepRunner runner(compiled, state, share_resources(compiled.all(), c10::kCPU));
  for (const std::int64_t seed : {1, 2}) runner.run(batch_of(job, 1, seed), 1e-3);
  const SmallJob plain("llama3", 1, {});
  const StepProgram without = plain.compile(ExecutorKind::replay);
  TrainState state_without = plain.state(without, c10::kCPU);
  StepRunner runner_without(without, state_without, share_resources(without.all(), c10::kCPU));
  for (const std::int64_t seed : {1, 2}) runner_without.run(batch_of(plain, 1, seed), 1e-3);
  CHECK(runner.replay_stats()->state_bytes == runner_without.replay_stats()->state_bytes);
}

}  // namespace rondo
