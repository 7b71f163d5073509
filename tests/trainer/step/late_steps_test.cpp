// Tests steps that begin before the result of the previous step is known.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cmath>

#include "tests/trainer/step/small_job.h"

namespace rondo {
namespace {

// A batch whose loss is 0 / 0.
StepBatch without_valid_tokens(StepBatch batch) {
  for (Batch& each : batch.microbatches)
    std::fill(each.labels.begin(), each.labels.end(), static_cast<std::int64_t>(kIgnoreLabel));
  batch.valid_tokens = 0;
  return batch;
}

struct Bound {
  explicit Bound(const SmallJob& job, ExecutorKind kind)
      : compiled(job.compile(kind)),
        state(job.state(compiled, c10::kCPU)),
        runner(compiled, state, share_resources(compiled.all(), c10::kCPU)) {}
  std::string hash() {
    ProcessGroups groups = alone();
    return state.hash(groups);
  }
  StepProgram compiled;
  TrainState state;
  StepRunner runner;
};

}  // namespace

TEST_CASE("a step that begins after one that is not finite changes no bit, even if it would be finite") {
  const bool accumulates = GENERATE(false, true);
  const auto kind = GENERATE(ExecutorKind::eager, ExecutorKind::replay);
  const SmallJob job(accumulates ? "deepseek_v3" : "llama3", 1,
                     accumulates ? SmallJob::Flags{"--training.global_batch_size=4"} : SmallJob::Flags{});
  const auto batch = [&](std::int64_t seed) { return batch_of(job, job.options.microbatches, seed); };
  Bound bound(job, kind), single(job, kind);
  CHECK(bound.runner.run(batch(1), 1e-3).finite);
  CHECK(single.runner.run(batch(1), 1e-3).finite);
  const std::string hash = bound.hash();
  CHECK(single.hash() == hash);
  CHECK(single.runner.run(batch(3), 1e-3).finite);
  CHECK(single.hash() != hash);

  bound.runner.begin(without_valid_tokens(batch(2)), 1e-3);
  bound.runner.begin(batch(3), 1e-3);
  const StepResult result = bound.runner.finish();
  CHECK_FALSE(result.finite);
  CHECK(std::isnan(result.loss));
  CHECK(bound.runner.in_flight() == 1);
  CHECK(bound.hash() == hash);
}

TEST_CASE("steps that are read with a lag have the numbers and the bits of steps that are read at once") {
  const SmallJob job("llama3", 1, {});
  Bound late(job, ExecutorKind::replay), at_once(job, ExecutorKind::replay);
  std::vector<double> expected, actual;
  for (const std::int64_t seed : {1, 2, 3, 4})
    expected.push_back(at_once.runner.run(batch_of(job, 1, seed), 1e-3).loss);
  late.runner.begin(batch_of(job, 1, 1), 1e-3);
  for (const std::int64_t seed : {2, 3, 4}) {
    late.runner.begin(batch_of(job, 1, seed), 1e-3);
    actual.push_back(late.runner.finish().loss);
  }
  actual.push_back(late.runner.finish().loss);
  CHECK(actual == expected);
  CHECK(late.hash() == at_once.hash());
}

}  // namespace rondo
