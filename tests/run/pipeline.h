// Compares a pipeline with accumulation: the same layout of ranks without stages, which runs one
// microbatch after the other.
#pragma once

#include "tests/run/checkpoints.h"
#include "tests/run/layouts.h"
#include "tests/run/models.h"

namespace rondo {

// Fixes the number of threads, which changes the rounding of sums. Called before the first run of
// this process.
inline const int kOneThreadEach = setenv("OMP_NUM_THREADS", "1", 1);
inline constexpr int kMicrobatches = 4, kPipelineSteps = 4;
inline const Words kSavesEverySecond = {"--checkpoint.enable=true", "--checkpoint.interval=2",
                                        fmt::format("--training.steps={}", kPipelineSteps),
                                        "--validation.freq=2", "--debug.hash_every=0"};

inline const Words kSchedules = {"GPipe",         "1F1B",     "Interleaved1F1B", "InterleavedZeroBubble",
                                 "ZBVZeroBubble", "DualPipeV"};

// Two rounds of GPipe on two ranks, a schedule without a name.
inline Words schedule_of_csv(const Place& place) {
  write_text(place / "rounds.csv",
             "0F0,0F1,,,0B0,0B1,0F2,0F3,,,0B2,0B3\n"
             ",1F0,1F1,1B0,1B1,,,1F2,1F3,1B2,1B3,\n");
  return {"--parallelism.pipeline_parallel_schedule_csv=" + (place / "rounds.csv").string()};
}
inline Words schedule(const std::string& name) {
  return {"--parallelism.pipeline_parallel_schedule=" + name};
}

inline Words layers(int count) { return {fmt::format("--model.n_layers={}", count)}; }

inline Words accumulates(int data, int microbatches = kMicrobatches) {
  return kSavesEverySecond + Words{"--training.local_batch_size=1",
                                   fmt::format("--training.global_batch_size={}", microbatches * data)};
}
inline Words pipelines(int degree, int microbatches = kMicrobatches) {
  return kSavesEverySecond + Words{fmt::format("--training.local_batch_size={}", microbatches),
                                   fmt::format("--parallelism.pipeline_parallel_degree={}", degree)};
}

// Compares losses, norms and validation losses on all steps, and the last checkpoints.
inline void check_equals(const Place& place, const std::string& accumulated, const std::string& pipeline) {
  INFO(pipeline);
  const auto ours = place.metrics(pipeline), theirs = place.metrics(accumulated);
  REQUIRE(theirs.size() == kPipelineSteps);
  REQUIRE(ours.size() == theirs.size());
  std::size_t validated = 0;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    for (const char* number : {"step", "loss", "grad_norm", "lr"}) {
      INFO(number << " of line " << i);
      CHECK(ours[i].at(number) == theirs[i].at(number));
    }
    CHECK(ours[i].value("validation_loss", 0.0) == theirs[i].value("validation_loss", 0.0));
    validated += ours[i].contains("validation_loss");
  }
  CHECK(validated > 0);
  const std::string last = fmt::format("checkpoint/step-{}", kPipelineSteps);
  CHECK(check_same_tensors(place / accumulated / last, place / pipeline / last) > 50);
}

// Copies a run, to resume from its second step.
inline void forget_the_last(const Place& place, const std::string& run, const std::string& copy) {
  std::filesystem::copy(place / run, place / copy, std::filesystem::copy_options::recursive);
  std::filesystem::remove_all(place / copy / fmt::format("checkpoint/step-{}", kPipelineSteps));
}

}  // namespace rondo
