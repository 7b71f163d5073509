// Tests updates in the backward: where they run, which gradients they free, and that they change no
// bit.
#include <fmt/format.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "compiler/plan/report/memory_report.h"
#include "tests/trainer/step/trained_steps.h"

namespace rondo {
namespace {

const SmallJob::Flags kAtTheEnd = {"--training.max_norm=inf"};
const SmallJob::Flags kEarly = {"--training.max_norm=inf", "--optimizer.early_step_in_backward=true"};

struct Updates {
  int all = 0, in_backward = 0;
  std::int64_t gradient_bytes = 0;  // that live at the last node of the backward
};

Updates step_updates(const std::string& model, std::int64_t ranks, const SmallJob::Flags& flags) {
  const StepProgram compiled = SmallJob(model, ranks, flags).compile(ExecutorKind::replay);
  const CompiledStep& step = compiled.at("train_step");
  const ir::Graph& graph = step.graph();
  Updates updates;
  std::size_t last = 0;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const ir::Node& node = graph.nodes[i];
    CHECK(node.op != "rondo.adamw.default");  // it would copy its parameters
    if (node.op == "rondo.adamw_.default") ++updates.all;
    if (node.phase != Phase::backward) continue;
    last = i;
    updates.in_backward = updates.all;
  }
  for (const ir::PlannedStorage& storage : step.report().memory.storages)
    if (storage.category == ir::StorageCategory::gradients && storage.is_live_at(last))
      updates.gradient_bytes += storage.bytes;
  return updates;
}

}  // namespace

TEST_CASE("each bucket has an update, which runs in the backward and frees its gradients") {
  // Four layers, the embedding, and norm with output; experts of three layers.
  const auto [model, ranks, buckets] = GENERATE(table<std::string, std::int64_t, int>(
      {{"llama3", 1, 6}, {"llama3", 2, 6}, {"deepseek_v3", 1, 9}, {"deepseek_v3", 4, 9}}));
  INFO(model << ", " << ranks << " ranks");
  const SmallJob::Flags four_layers = {"--model.n_layers=4"};
  const auto with = [&](SmallJob::Flags flags) {
    flags.insert(flags.end(), four_layers.begin(), four_layers.end());
    return step_updates(model, ranks, flags);
  };
  const Updates at_the_end = with(kAtTheEnd), early = with(kEarly);
  CHECK(at_the_end.all == 1);
  CHECK(at_the_end.in_backward == 0);
  CHECK(early.all == buckets);
  CHECK(early.in_backward >= buckets - 2);
  INFO(at_the_end.gradient_bytes << " bytes of gradients, early " << early.gradient_bytes);
  CHECK(early.gradient_bytes < 0.5 * static_cast<double>(at_the_end.gradient_bytes));
}

TEST_CASE("an early update has the bits of an update at the end, in the graph and interpreted") {
  const std::string model = GENERATE("llama3", "deepseek_v3");
  const std::string eager = trained_steps(model, kAtTheEnd, ExecutorKind::eager);
  CHECK(trained_steps(model, kEarly, ExecutorKind::interpreter) == eager);
  CHECK(trained_steps(model, kEarly, ExecutorKind::replay) == eager);
  CHECK(trained_steps(model, kAtTheEnd, ExecutorKind::replay) == eager);
}

TEST_CASE("no step after one that is not finite changes a bit of an early update") {
  const SmallJob job("llama3", 1, kEarly);
  const StepProgram compiled = job.compile(ExecutorKind::replay);
  TrainState state = job.state(compiled, c10::kCPU);
  StepRunner runner(compiled, state, share_resources(compiled.all(), c10::kCPU));
  ProcessGroups groups = alone();
  StepBatch batch = batch_of(job, 1, 1);
  batch.valid_tokens = 0;
  for (Batch& each : batch.microbatches)
    std::fill(each.labels.begin(), each.labels.end(), static_cast<std::int64_t>(kIgnoreLabel));
  CHECK_FALSE(runner.run(batch, 1e-3).finite);
  const std::string hash = state.hash(groups);
  CHECK_FALSE(runner.run(batch_of(job, 1, 2), 1e-3).finite);
  CHECK(state.hash(groups) == hash);
}

}  // namespace rondo
