// Trains a few steps, for comparisons of bits.
#pragma once

#include <fmt/format.h>

#include <catch2/catch_test_macros.hpp>

#include "tests/trainer/step/small_job.h"

namespace rondo {

// Returns the numbers of three steps of a small model on one rank, and the hash of the state after
// them.
inline std::string trained_steps(const std::string& model, const SmallJob::Flags& flags, ExecutorKind kind,
                                 int microbatches = 1) {
  const SmallJob job(model, 1, flags);
  const StepProgram compiled = job.compile(kind);
  TrainState state = job.state(compiled, c10::kCPU);
  StepRunner runner(compiled, state, share_resources(compiled.all(), c10::kCPU));
  std::string numbers;
  for (const std::int64_t seed : {1, 2, 3}) {
    const StepResult result = runner.run(batch_of(job, microbatches, seed), 1e-3);
    CHECK(result.finite);
    numbers += fmt::format("{} {} ", result.loss, result.grad_norm);
  }
  ProcessGroups groups = alone();
  return numbers + state.hash(groups);
}

}  // namespace rondo
