// Tests whole steps and their state on a device whose memory the host cannot read (far_device.h):
// they have the bits of the CPU, and every transfer between the two is a copy.
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <filesystem>

#include "compiler/execute/planned_step.h"
#include "config/derived/paths.h"
#include "tests/compiler/execute/far_device.h"
#include "tests/runs/metrics/scratch.h"
#include "tests/trainer/step/small_job.h"
#include "trainer/observe/report.h"
#include "trainer/resume/checkpoint_restore.h"
#include "trainer/resume/checkpoint_saver.h"

namespace rondo {
namespace {

// Returns the state in the order of the function's inputs.
std::vector<at::Tensor> tensors_of(const StepFunction& function, const Batch& batch) {
  const auto copy = [](const auto& numbers, const StepInput& input) {
    return at::tensor(numbers, to_aten(input.type.dtype)).view(input.type.sizes);
  };
  std::vector<at::Tensor> tensors;
  for (const StepInput& input : function.inputs) {
    if (input.kind != ir::InputKind::batch) continue;
    if (input.name == "tokens") tensors.push_back(copy(batch.tokens, input));
    if (input.name == "labels") tensors.push_back(copy(batch.labels, input));
    if (input.name == "positions") tensors.push_back(copy(batch.positions, input));
    if (input.name == "document_borders") tensors.push_back(copy(batch.cu_seqlens, input));
    if (input.name == "valid_tokens")
      tensors.push_back(copy(std::vector{static_cast<float>(batch.valid_tokens)}, input));
    if (input.name == "learning_rate") tensors.push_back(copy(std::vector{1e-3f}, input));
  }
  return tensors;
}

// The numbers that the runner reads in two steps and a validation, and the hash of the state
// after them.
struct Outcome {
  std::vector<double> numbers;
  std::string hash;
};
void train(const SmallJob& job, StepRunner& runner, std::vector<double>& numbers) {
  for (const std::int64_t seed : {1, 5}) {
    const StepResult r = runner.run(batch_of(job, job.options.microbatches, seed), 1e-3);
    numbers.insert(numbers.end(), {r.loss, r.grad_norm, r.finite ? 1.0 : 0.0, r.load_imbalance.value_or(0)});
    numbers.insert(numbers.end(), r.tokens_per_expert.begin(), r.tokens_per_expert.end());
  }
  const LossSum validation = runner.validate(batch_of(job, 1, 9));
  numbers.insert(numbers.end(), {validation.losses, static_cast<double>(validation.labels)});
}
Outcome run(const SmallJob& job, ExecutorKind kind, c10::Device device) {
  const StepProgram compiled = job.compile(kind);
  const TrainState state = job.state(compiled, device);
  StepRunner runner(compiled, state, share_resources(compiled.all(), c10::kCPU, {}));
  Outcome outcome;
  train(job, runner, outcome.numbers);
  ProcessGroups groups = alone();
  outcome.hash = state.hash(groups);
  return outcome;
}

void check_same_bits(const std::string& model, const SmallJob::Flags& flags) {
  INFO(fmt::format("{} {}", model, fmt::join(flags, " ")));
  const SmallJob job(model, 1, flags);
  const Outcome expected = run(job, ExecutorKind::eager, c10::kCPU);
  CHECK(expected.numbers[0] > 1);  // a loss
  for (const ExecutorKind kind : {ExecutorKind::eager, ExecutorKind::interpreter}) {
    const Outcome actual = run(job, kind, far_device());
    CHECK(actual.numbers == expected.numbers);
    CHECK(actual.hash == expected.hash);
  }
}

// A planned step on the far device, with its instructions one after the other.
class FarPlan final : public Executor {
 public:
  FarPlan(const ir::Graph& graph, std::vector<at::Tensor> state) {
    const ir::MemoryPlan plan = ir::plan_memory(graph);
    arena_.reset(reserve_far(static_cast<std::size_t>(plan.arena_bytes)));
    step_ = std::make_unique<PlannedStep>(graph, plan, StepMemory{far_device(), arena_.get(), nullptr},
                                          std::move(state));
  }
  std::vector<at::Tensor> run(const std::vector<at::Tensor>& batch) override {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    step_->copy_batch_in(batch);
    for (const auto& instruction : step_->instructions()) {
      instruction->call();
      instruction->settle();
    }
    return step_->results();
  }

 private:
  struct Release {
    void operator()(char* block) const { release_far(block); }
  };
  std::unique_ptr<char, Release> arena_;
  std::unique_ptr<PlannedStep> step_;
};

const std::string kAccumulates = "--training.global_batch_size=4";

}  // namespace

TEST_CASE("steps of Llama on another device have the bits of the CPU") {
  check_same_bits("llama3", {kBf16, kDocuments});
  check_same_bits("llama3", {kAccumulates, kCheckpoints, "--model.tie_embeddings=true"});
}

TEST_CASE("steps of DeepSeek-V3 on another device have the bits of the CPU") {
  check_same_bits("deepseek_v3", {kDocuments, "--model.sequence_balance_coeff=0.01"});
  check_same_bits("deepseek_v3", {kBf16, kAccumulates, "--model.score_func=sigmoid"});
}

TEST_CASE("planned steps on another device have the bits of the CPU, also with their state in host memory") {
  const std::string model = GENERATE("llama3", "deepseek_v3"), on_host = GENERATE("false", "true");
  const SmallJob job(model, 1, {kDocuments, "--training.enable_cpu_offload=" + on_host});
  const StepProgram compiled = job.compile(ExecutorKind::interpreter);
  std::vector<at::Tensor> outcomes[2];
  for (const c10::Device device : {c10::Device(c10::kCPU), far_device()}) {
    const TrainState state = job.state(compiled, device);
    const std::vector<at::Tensor> inputs = state.inputs_of(compiled.at("train_step").function());
    std::unique_ptr<Executor> executor;
    if (device.is_cpu())
      executor = make_interpreter(compiled.at("train_step").graph(), inputs);
    else
      executor = std::make_unique<FarPlan>(compiled.at("train_step").graph(), inputs);
    std::vector<at::Tensor>& outcome = outcomes[device.is_cpu()];
    for (const std::int64_t seed : {1, 5}) {
      const std::vector<at::Tensor> batch =
          tensors_of(compiled.at("train_step").function(), microbatch(job.options.document_attention, seed));
      for (const at::Tensor& result : executor->run(batch)) outcome.push_back(result.cpu());
    }
    for (const at::Tensor& tensor : inputs) outcome.push_back(tensor.cpu());
  }
  REQUIRE(outcomes[0].size() == outcomes[1].size());
  for (std::size_t i = 0; i < outcomes[0].size(); ++i) {
    INFO("quantity " << i);
    CHECK(at::equal(outcomes[0][i], outcomes[1][i]));
  }
}

TEST_CASE("state on another device is saved as it is on the CPU, and restored to either") {
  const Scratch folder;
  const std::string mode = GENERATE("disabled", "async");
  const SmallJob job("deepseek_v3", 1,
                     {"--job.dump_folder=" + folder.path(mode), "--checkpoint.enable=true",
                      "--checkpoint.async_mode=" + mode});
  const StepProgram compiled = job.compile(ExecutorKind::eager);
  ProcessGroups groups = alone();
  const std::filesystem::path root = checkpoint_root(job.config);
  const TrainState trained = job.state(compiled, far_device());
  StepRunner runner(compiled, trained, share_resources(compiled.all(), c10::kCPU, {}));
  std::vector<double> numbers;
  train(job, runner, numbers);
  const std::string hash = trained.hash(groups);
  TrainingProgress progress;
  progress.step = 2;
  progress.data.seq_len = job.config.training.seq_len;
  {
    Report report(job.config, {}, 1);
    report.begin(std::nullopt);
    CheckpointSaver saver(job.config.checkpoint, root, identity_of(job.config, job.layout, {}, {}), groups,
                          &report);
    saver.save(trained.parts(), progress);
    runner.run(batch_of(job, 1, 3), 1e-3);  // the saved state does not change with it
    saver.settle();
    REQUIRE(saver.last_saved_step() == 2);
  }
  CHECK(trained.hash(groups) != hash);
  for (const c10::Device device : {c10::Device(c10::kCPU), far_device()}) {
    const TrainState restored = job.state(compiled, device);
    CHECK(restored.hash(groups) != hash);
    const RestoreRequest request{job.config, root, job.layout, *job.decoder, progress.data, {}};
    CHECK(restore(request, check_start(request, /*first=*/true), restored.parts(), groups).resumed);
    CHECK(restored.hash(groups) == hash);
  }
}

TEST_CASE("weights alone are saved from another device as they are on the CPU") {
  const Scratch folder;
  const SmallJob job("llama3", 1, {"--job.dump_folder=" + folder.path(), "--checkpoint.enable=true"});
  const StepProgram compiled = job.compile(ExecutorKind::eager);
  ProcessGroups groups = alone();
  const std::filesystem::path root = checkpoint_root(job.config);
  const TrainState far = job.state(compiled, far_device()), near = job.state(compiled, c10::kCPU);
  TrainingProgress progress;
  progress.data.seq_len = job.config.training.seq_len;
  {
    Report report(job.config, {}, 1);
    report.begin(std::nullopt);
    CheckpointSaver saver(job.config.checkpoint, root, identity_of(job.config, job.layout, {}, {}), groups,
                          &report);
    CHECK(saver.save_model(far.parts(), progress, Precision::bfloat16, /*suffix=*/""));
  }
  for (const StatePart& part : near.parts()) at::Tensor(part.tensor).zero_();
  const RestoreRequest request{job.config, root, job.layout, *job.decoder, progress.data, {}};
  restore(request, check_start(request, /*first=*/true), near.parts(), groups);
  const std::vector<StatePart> saved = far.parts(), restored = near.parts();
  for (std::size_t i = 0; i < saved.size(); ++i) {
    INFO(saved[i].name);
    if (saved[i].of_model())
      CHECK(at::equal(saved[i].tensor.cpu().to(at::kBFloat16), restored[i].tensor.to(at::kBFloat16)));
  }
}

}  // namespace rondo
