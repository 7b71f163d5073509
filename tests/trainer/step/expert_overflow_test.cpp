// Tests which steps have a second function for experts that overflow, and when it fits.
// tests/run/experts_test.cpp tests its results.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "tests/trainer/step/small_job.h"

namespace rondo {
namespace {

StepProgram compiled(const SmallJob::Flags& flags, ExecutorKind kind = ExecutorKind::replay) {
  SmallJob::Flags job_flags = {"--parallelism.expert_parallel_degree=4",
                               "--parallelism.expert_capacity_factor=0.5"};
  job_flags.insert(job_flags.end(), flags.begin(), flags.end());
  return SmallJob("deepseek_v3", 4, job_flags).compile(kind);
}

bool has_input(const CompiledStep& step, const std::string& name) {
  for (const StepInput& input : step.function().inputs)
    if (input.name == name) return true;
  return false;
}

}  // namespace

TEST_CASE("only steps that may be repeated have a second function, with room for all rows") {
  CHECK(compiled({}).find("repeat"));
  CHECK_FALSE(compiled({"--parallelism.expert_overflow=skip"}).find("repeat"));
  CHECK_FALSE(compiled({"--parallelism.expert_overflow=drop"}).find("repeat"));
  CHECK_FALSE(compiled({"--parallelism.expert_capacity_factor=0"}).find("repeat"));
  CHECK_FALSE(compiled({"--parallelism.expert_parallel_degree=1"}).find("repeat"));
  CHECK_THROWS_WITH(
      compiled({"--parallelism.expert_overflow=drop", "--parallelism.expert_capacity_factor=0"}),
      Catch::Matchers::ContainsSubstring(
          "parallelism.expert_overflow=drop: needs parallelism.expert_capacity_factor above 0; with 0 there "
          "is capacity for all rows"));
  CHECK_THROWS_WITH(compiled({"--parallelism.expert_parallel_comm_backend=standard",
                              "--parallelism.expert_parallel_combine=alltoall"}),
                    Catch::Matchers::ContainsSubstring(
                        "parallelism.expert_parallel_combine=alltoall: needs expert_parallel_comm_backend = "
                        "\"static\"; with \"standard\" no sum is divided"));
  const StepProgram accumulating = compiled({"--training.global_batch_size=16"});
  CHECK(has_input(accumulating.at("accumulate"), "dropped_tokens_sum"));
  CHECK_FALSE(has_input(accumulating.at("repeat"), "dropped_tokens_sum"));
  CHECK(has_input(accumulating.at("repeat"), "loss_sum"));
}

TEST_CASE("a repeat fits if it needs no more than the step, or if everything fits into memory") {
  for (const std::string exchange : {"static", "standard"}) {
    const std::string flag = "--parallelism.expert_parallel_comm_backend=" + exchange;
    const StepProgram keeping = compiled({flag, "--compile.memory_policy=none", "--model.n_layers=6",
                                          "--parallelism.expert_capacity_factor=1.5"});
    CHECK(keeping.repeat_fits(0));
    const StepProgram recomputing = compiled({flag, "--compile.memory_policy=full"});
    const std::int64_t bytes = planned_memory(recomputing).total_bytes();
    CHECK(recomputing.at("repeat").report().memory.arena_bytes == planned_memory(recomputing).arena_bytes);
    CHECK(recomputing.repeat_fits(bytes));
    CHECK_FALSE(recomputing.repeat_fits(bytes - 1));
  }
  CHECK(compiled({}, ExecutorKind::eager).repeat_fits(0));
}

}  // namespace rondo
