// A step runs where its state lies. Meta tensors hold nothing, and kernels refuse a tensor of another device among
// them: what the step makes must be made on the device of its inputs. Collectives need no group here, so layouts of
// many ranks run too.
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <catch2/catch_test_macros.hpp>
#include <optional>

#include "models/decoder.h"
#include "trainer/config/load.h"
#include "trainer/from_config.h"
#include "trainer/step_runner.h"
#include "trainer/train_state.h"

namespace rondo {
namespace {

using Flags = std::vector<std::string>;

std::vector<at::Tensor> batch_on_the_host(const StepFunction& function) {
  std::vector<at::Tensor> batch;
  for (const StepInput& input : function.inputs)
    if (input.kind == ir::InputKind::batch)
      batch.push_back(at::zeros(input.type.sizes, to_aten(input.type.dtype)));
  return batch;
}

TrainState on_meta(const Decoder& model, const CompiledFunctions& compiled, const TrainStepOptions& options) {
  std::vector<const StepFunction*> functions;
  for (const CompiledStep* function : compiled.all()) functions.push_back(&function->function());
  return {
      model,    functions, /*seed=*/1, options.mesh, static_cast<int>(options.rank), table_length(options),
      at::kMeta};
}

// Every function of the step, eager and as the graph after the passes.
void check_on_meta(const std::string& config_name, std::int64_t ranks, const Flags& more) {
  INFO(fmt::format("{}, {} ranks, {}", config_name, ranks, fmt::join(more, " ")));
  Flags flags = {"--job.config_file=" RONDO_SOURCE_DIR "/configs/" + config_name + ".toml",
                 "--training.local_batch_size=2", "--training.seq_len=32", "--model.n_layers=2"};
  flags.insert(flags.end(), more.begin(), more.end());
  const JobConfig config = load_config(flags);
  const Layout layout = resolve_layout(config, ranks);
  const std::shared_ptr<const Decoder> model = make_decoder(config.model.name, config.model.sizes);
  TrainStepOptions options = step_options(config, layout, ranks - 1);
  options.checkpoint_blocks = config.activation_checkpoint.mode == "full";
  const TrainStepFunctions step = make_train_step(model, options);
  std::optional<TrainState> state;
  for (const ExecutorKind kind : {ExecutorKind::eager, ExecutorKind::interpreter}) {
    CompileRequest request = compile_request(config, {});
    request.executor = kind;
    const CompiledFunctions compiled(step, request, /*with_validation=*/true);
    if (!state) state.emplace(on_meta(*model, compiled, options));
    for (const CompiledStep* function : compiled.all()) {
      INFO(function->function().name << (kind == ExecutorKind::eager ? ", eager" : ", interpreted"));
      const std::vector<at::Tensor> inputs = state->inputs_of(function->function());
      for (const at::Tensor& input : inputs) REQUIRE(input.is_meta());
      const auto results = function->bind(inputs, nullptr)->run(batch_on_the_host(function->function()));
      CHECK(results.empty() == (function->function().name == "accumulate"));
      for (const at::Tensor& result : results) CHECK(result.is_meta());
    }
  }
}

const std::string kBf16 = "--training.mixed_precision_param=bfloat16";
const std::string kDocuments = "--training.document_attention=true";
const std::string kAccumulates = "--training.global_batch_size=8";
const std::string kCheckpoints = "--activation_checkpoint.mode=full";

}  // namespace

TEST_CASE("a step of Llama makes every tensor on the device of its state") {
  const std::string name = "llama3_debug";
  check_on_meta(name, 1, {});
  check_on_meta(name, 1, {kBf16, kDocuments});
  check_on_meta(name, 1, {kAccumulates, kDocuments});
  check_on_meta(name, 1, {kCheckpoints, "--model.tie_embeddings=true"});
  check_on_meta(name, 1, {"--optimizer.name=Adam"});
}

TEST_CASE("a step of DeepSeek-V3 makes every tensor on the device of its state") {
  const std::string name = "deepseek_v3_debug";
  check_on_meta(name, 1, {});
  check_on_meta(name, 1, {kBf16, kDocuments, "--model.sequence_balance_coeff=0.01"});
  check_on_meta(name, 1, {kAccumulates, kCheckpoints});
  check_on_meta(name, 1,
                {"--model.score_func=sigmoid", "--model.route_norm=true", "--model.n_expert_groups=4",
                 "--model.n_limited_groups=2", "--model.q_lora_rank=32"});
}

TEST_CASE("ranks that share layers, experts and shards make every tensor on the device of the state") {
  const std::string tensor = "--parallelism.tensor_parallel_degree=2",
                    experts = "--parallelism.expert_parallel_degree=2",
                    replicas = "--parallelism.data_parallel_replicate_degree=2",
                    room = "--parallelism.expert_capacity_factor=1.5",
                    exact = "--parallelism.expert_parallel_comm_backend=standard";
  check_on_meta("llama3_debug", 4, {tensor, kBf16, kCheckpoints, "--model.vocab_size=2049"});
  check_on_meta("llama3_debug", 4, {replicas, "--training.global_batch_size=16"});
  check_on_meta("deepseek_v3_debug", 4, {experts, room, kBf16, "--model.sequence_balance_coeff=0.01"});
  check_on_meta("deepseek_v3_debug", 4, {experts, tensor, exact, "--training.global_batch_size=16"});
  check_on_meta("deepseek_v3_debug", 4, {experts, exact, room});
}

}  // namespace rondo
