// Tests that a step runs on the device of its state. Meta tensors have no data, and their kernels
// refuse a tensor of another device, so the step must create every tensor on the device of its
// inputs. Collectives need no group here, so layouts of many ranks run as well.
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <catch2/catch_test_macros.hpp>
#include <optional>

#include "tests/trainer/step/small_job.h"

namespace rondo {
namespace {

std::vector<at::Tensor> batch_on_the_host(const StepFunction& function) {
  std::vector<at::Tensor> batch;
  for (const StepInput& input : function.inputs)
    if (input.kind == ir::InputKind::batch)
      batch.push_back(at::zeros(input.type.sizes, to_aten(input.type.dtype)));
  return batch;
}

// Runs every function of the step, eagerly and as the graph after the passes.
void check_on_meta(const std::string& model, std::int64_t ranks, const SmallJob::Flags& flags) {
  INFO(fmt::format("{}, {} ranks, {}", model, ranks, fmt::join(flags, " ")));
  const SmallJob job(model, ranks, flags);
  std::optional<TrainState> state;
  for (const ExecutorKind kind : {ExecutorKind::eager, ExecutorKind::interpreter}) {
    const StepProgram compiled = job.compile(kind);
    if (!state) state.emplace(job.state(compiled, at::kMeta));
    for (const CompiledStep* function : compiled.all()) {
      INFO(function->function().name << (kind == ExecutorKind::eager ? ", eager" : ", interpreted"));
      const std::vector<at::Tensor> inputs = state->inputs_of(function->function());
      for (const at::Tensor& input : inputs) REQUIRE(input.is_meta());
      const auto results = function->bind(inputs, {})->run(batch_on_the_host(function->function()));
      CHECK(results.empty() == (function->function().name == "accumulate"));
      for (const at::Tensor& result : results) CHECK(result.is_meta());
    }
  }
}

const std::string kFourMicrobatches = "--training.global_batch_size=8";

}  // namespace

TEST_CASE("a step of Llama creates every tensor on the device of its state") {
  check_on_meta("llama3", 1, {});
  check_on_meta("llama3", 1, {kBf16, kDocuments});
  check_on_meta("llama3", 1, {kFourMicrobatches, kDocuments});
  check_on_meta("llama3", 1, {kCheckpoints, "--model.tie_embeddings=true"});
  check_on_meta("llama3", 1, {"--optimizer.name=Adam"});
}

TEST_CASE("a step of DeepSeek-V3 creates every tensor on the device of its state") {
  check_on_meta("deepseek_v3", 1, {});
  check_on_meta("deepseek_v3", 1, {kBf16, kDocuments, "--model.sequence_balance_coeff=0.01"});
  check_on_meta("deepseek_v3", 1, {kFourMicrobatches, kCheckpoints});
  check_on_meta("deepseek_v3", 1,
                {"--model.score_func=sigmoid", "--model.route_norm=true", "--model.n_expert_groups=4",
                 "--model.n_limited_groups=2", "--model.q_lora_rank=32"});
}

TEST_CASE("ranks that share layers, experts and shards create every tensor on the device of the state") {
  const std::string tensor = "--parallelism.tensor_parallel_degree=2",
                    experts = "--parallelism.expert_parallel_degree=2",
                    replicas = "--parallelism.data_parallel_replicate_degree=2",
                    room = "--parallelism.expert_capacity_factor=1.5",
                    exact = "--parallelism.expert_parallel_comm_backend=standard",
                    accumulates = "--training.global_batch_size=16";
  check_on_meta("llama3", 4, {tensor, kBf16, kCheckpoints, "--model.vocab_size=259"});
  check_on_meta("llama3", 4, {replicas, accumulates});
  check_on_meta("deepseek_v3", 4, {experts, room, kBf16, "--model.sequence_balance_coeff=0.01"});
  check_on_meta("deepseek_v3", 4, {experts, tensor, exact, accumulates});
  check_on_meta("deepseek_v3", 4, {experts, exact, room});
}

}  // namespace rondo
