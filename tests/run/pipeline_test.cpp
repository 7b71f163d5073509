// Tests that pipelines have the bits of accumulation with any schedule and executor. The layouts
// contain each schedule, model and setting; pipeline_full_test.cpp has the matrix.
#include "tests/run/pipeline.h"

namespace rondo {
namespace {

const std::string kSyncOnce = "--parallelism.fsdp_gradient_sync=step";

TEST_CASE("pipelines of Llama 3 have the bits of accumulation, resume it and are resumed by it") {
  const Place place;
  const Words flags = layers(4) + Words{"--training.document_attention=true"};
  const auto accumulate = [&](const std::string& name) { place.play(1, name, flags + accumulates(1)); };
  const auto pipeline = [&](const std::string& name, const Words& more) {
    place.play(2, name, flags + pipelines(2) + more);
  };
  accumulate("accumulated");
  const Words hashed = {"--debug.hash_every=2"};
  pipeline("GPipe, eager", schedule("GPipe") + kEager + hashed);
  pipeline("1F1B, replay", schedule("1F1B") + kReplay + hashed);
  CHECK_THAT(place.compare("GPipe, eager", "1F1B, replay").output,
             Catch::Matchers::ContainsSubstring("equal bit for bit") &&
                 Catch::Matchers::ContainsSubstring("state_hash on"));
  pipeline("InterleavedZeroBubble, interpreter",
           schedule("InterleavedZeroBubble") + kInterpreter +
               Words{"--compile.memory_policy=full",
                     "--parallelism.pipeline_parallel_max_pending_weight_gradients=1"});
  forget_the_last(place, "accumulated", "resumed with a pipeline");
  pipeline("resumed with a pipeline", schedule_of_csv(place));
  pipeline("ZBVZeroBubble, eager", schedule("ZBVZeroBubble") + kEager);
  pipeline("ZBVZeroBubble, eager, selective",
           schedule("ZBVZeroBubble") + kEager + Words{"--activation_checkpoint.mode=selective"});
  forget_the_last(place, "ZBVZeroBubble, eager", "resumed without");
  accumulate("resumed without");
  for (const char* run :
       {"GPipe, eager", "1F1B, replay", "InterleavedZeroBubble, interpreter", "resumed with a pipeline",
        "ZBVZeroBubble, eager", "ZBVZeroBubble, eager, selective", "resumed without"})
    check_equals(place, "accumulated", run);
  CHECK(place.metrics("accumulated").front().at("grad_norm") > 1);  // above training.max_norm: clipped
}

TEST_CASE("a pipeline and overlapped microbatches of DeepSeek-V3 in bf16 have the bits of accumulation") {
  const Place place(kTinyDeepSeek);
  const Words flags =
      layers(4) + Words{"--parallelism.expert_parallel_degree=2", "--training.mixed_precision_param=bfloat16",
                        "--parallelism.fsdp_reshard_after_forward=always", kSyncOnce};
  place.play(2, "accumulated", flags + accumulates(2));
  place.play(4, "DualPipeV", flags + pipelines(2) + schedule("DualPipeV"));
  check_equals(place, "accumulated", "DualPipeV");
  const std::string sequences = fmt::format("{}", kMicrobatches);
  place.play(2, "overlapped",
             flags + kSavesEverySecond +
                 Words{"--training.local_batch_size=" + sequences,
                       "--parallelism.overlapped_microbatches=" + sequences});
  check_equals(place, "accumulated", "overlapped");
}

TEST_CASE("a pipeline of gpt-oss with tensor parallelism has the bits of accumulation") {
  const Place place(gpt_oss().toml);
  const Words flags = layers(4) + Words{"--parallelism.tensor_parallel_degree=2",
                                        "--parallelism.fsdp_reshard_after_forward=never", kSyncOnce};
  place.play(2, "accumulated", flags + accumulates(1));
  place.play(4, "Interleaved1F1B", flags + pipelines(2) + schedule("Interleaved1F1B"));
  check_equals(place, "accumulated", "Interleaved1F1B");
}

}  // namespace
}  // namespace rondo
