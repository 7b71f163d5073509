// Tests numbers of ranks: all start from the same weights, read the same batch, and compute the
// same loss and gradient up to rounding.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "tests/run/runs.h"

namespace rondo {
namespace {

constexpr int kGlobalBatch = 12;
const Words kOneStep = {"--training.steps=1", "--lr_scheduler.warmup_steps=0"};

// Flags for the same global batch in one microbatch, or in several of `local` sequences.
void run_on(const Place& place, int ranks, int local, const std::string& name, const Words& flags) {
  place.play(
      ranks, name,
      Words{fmt::format("--training.global_batch_size={}", kGlobalBatch),
            fmt::format("--training.local_batch_size={}", local), "--training.document_attention=true"} +
          flags);
}

void check_close(const Place& place, const std::string& a, const std::string& b, const char* tolerance) {
  const ProgramResult compared = place.compare(a, b, {"--tolerance", tolerance});
  INFO(a << " and " << b << ":\n" << compared.output);
  CHECK(compared.exit_code == 0);
}

TEST_CASE("the first step has the loss and gradient norm of 1 rank on 2, 3 and 4 ranks") {
  const Place place;
  run_on(place, 1, kGlobalBatch, "1", kOneStep);
  for (const int ranks : {2, 3, 4}) {
    run_on(place, ranks, kGlobalBatch / ranks, std::to_string(ranks), kOneStep);
    check_close(place, "1", std::to_string(ranks), "3e-7");
  }
}

TEST_CASE("three steps on 2, 3 and 4 ranks follow those of 1 rank") {
  const Place place;
  run_on(place, 1, kGlobalBatch, "1", {"--training.steps=3"});
  for (const int ranks : {2, 3, 4}) {
    run_on(place, ranks, kGlobalBatch / ranks, std::to_string(ranks), {"--training.steps=3"});
    check_close(place, "1", std::to_string(ranks), "1e-6");
  }
}

TEST_CASE("accumulated microbatches have the loss and gradient norm of one large batch") {
  const Place place;
  run_on(place, 1, kGlobalBatch, "whole", {"--training.steps=3"});
  for (const int ranks : {1, 2, 3}) {
    const std::string name = fmt::format("{} ranks accumulate", ranks);
    run_on(place, ranks, 2, name, {"--training.steps=3"});
    check_close(place, "whole", name, "1e-6");
  }
}

// Checks that the tolerances above detect a lost sequence.
TEST_CASE("a batch smaller by one sequence is outside the tolerance of layouts") {
  const Place place;
  run_on(place, 1, kGlobalBatch, "12 sequences", kOneStep);
  run_on(place, 1, kGlobalBatch - 1, "11 sequences",
         kOneStep + Words{fmt::format("--training.global_batch_size={}", kGlobalBatch - 1)});
  CHECK(place.compare("12 sequences", "11 sequences", {"--tolerance", "1e-6"}).exit_code == 1);
}

}  // namespace
}  // namespace rondo
