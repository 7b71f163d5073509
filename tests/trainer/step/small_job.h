// A model smaller than the debug configurations, and its step, for tests without a launcher.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "config/load.h"
#include "models/parts/decoder.h"
#include "parallel/groups/groups.h"
#include "trainer/step/from_config.h"
#include "trainer/step/step_runner.h"
#include "trainer/step/train_state.h"

namespace rondo {

inline const std::string kBf16 = "--training.mixed_precision_param=bfloat16";
inline const std::string kDocuments = "--training.document_attention=true";
inline const std::string kCheckpoints = "--activation_checkpoint.mode=full";

struct SmallJob {
  using Flags = std::vector<std::string>;

  // `model`: "llama3" or "deepseek_v3". The step is the last rank's.
  SmallJob(const std::string& model, std::int64_t ranks, const Flags& more)
      : config(load_config(flags(model, more))), layout(resolve_layout(config, ranks)), rank(ranks - 1) {
    decoder = make_decoder(config.model.name, config.model.sizes);
    options = step_options(config, layout, rank);
    if (config.activation_checkpoint.mode == ActivationCheckpointMode::full)
      options.checkpoint = {.every = 1};
    step = make_train_step(decoder, options);
  }

  StepProgram compile(ExecutorKind kind) const {
    CompileRequest request = compile_request(config, TargetDevice::cpu, {});
    request.executor = kind;
    return {step, request, /*with_validation=*/true};
  }
  TrainState state(const StepProgram& compiled, c10::Device device) const {
    std::vector<const StepFunction*> functions;
    for (const CompiledStep* function : compiled.all()) functions.push_back(&function->function());
    return {*decoder, functions, /*seed=*/1, layout.mesh, static_cast<int>(rank), table_length(options),
            device};
  }

  JobConfig config;
  Layout layout;
  std::int64_t rank;
  std::shared_ptr<const Decoder> decoder;
  TrainStepOptions options;
  TrainStepFunctions step;

 private:
  static Flags flags(const std::string& model, const Flags& more) {
    Flags flags = {"--job.config_file=" RONDO_SOURCE_DIR "/configs/" + model + "_debug.toml",
                   "--training.local_batch_size=2",
                   "--training.seq_len=32",
                   "--validation.local_batch_size=2",
                   "--validation.seq_len=32",
                   "--model.n_layers=2",
                   "--model.dim=64",
                   "--model.n_heads=4",
                   "--model.vocab_size=258"};
    const Flags latent = {"--model.kv_lora_rank=16",    "--model.qk_nope_head_dim=8",
                          "--model.qk_rope_head_dim=8", "--model.v_head_dim=8",
                          "--model.moe_hidden_dim=32",  "--model.ffn_hidden_dim=96"};
    if (model == "deepseek_v3") flags.insert(flags.end(), latent.begin(), latent.end());
    if (model == "llama3") flags.emplace_back("--model.n_kv_heads=2");
    flags.insert(flags.end(), more.begin(), more.end());
    return flags;
  }
};

// Returns a batch with two documents in the first row.
inline Batch microbatch(bool with_documents, std::int64_t seed) {
  constexpr std::int64_t kRows = 2, kLength = 32;
  Batch batch;
  for (std::int64_t i = 0; i < kRows * kLength; ++i) {
    batch.tokens.push_back((i * 31 + seed * 7) % 257);
    batch.labels.push_back(i % 9 == 0 ? kIgnoreLabel : (i * 31 + 31 + seed * 7) % 257);
    batch.positions.push_back(i < 20 ? i : i < kLength ? i - 20 : i - kLength);
    batch.valid_tokens += i % 9 != 0;
  }
  batch.cu_seqlens.assign(kRows * kLength + 1, kRows * kLength);
  const std::vector<std::int32_t> begins = {0, 20, 32};
  std::copy(begins.begin(), begins.end(), batch.cu_seqlens.begin());
  if (!with_documents) batch.cu_seqlens.clear();
  return batch;
}

inline StepBatch batch_of(const SmallJob& job, std::int64_t microbatches, std::int64_t seed) {
  StepBatch batch;
  for (std::int64_t i = 0; i < microbatches; ++i) {
    batch.microbatches.push_back(microbatch(job.options.document_attention, seed + i));
    batch.valid_tokens += batch.microbatches.back().valid_tokens;
  }
  return batch;
}

// Returns the groups of one rank.
inline ProcessGroups alone() { return {RankEnvironment{}, "all", std::chrono::seconds(1)}; }

}  // namespace rondo
