// Tests many random jobs: RONDO_DRAWS_BY_PLAN (300) and RONDO_DRAWS_BY_TRAIN (40) of them, from
// RONDO_DRAWS_SEED (1) on. A failure prints the job's command. Label `full`.
#include <cstdio>
#include <cstdlib>

#include "tests/run/random_jobs.h"

namespace rondo {
namespace {

std::uint64_t number_of(const char* variable, std::uint64_t usual) {
  const char* text = std::getenv(variable);
  return text == nullptr ? usual : std::strtoull(text, nullptr, 10);
}

TEST_CASE("config check and plan agree about many random jobs") {
  const std::uint64_t first = number_of("RONDO_DRAWS_SEED", 1), draws = number_of("RONDO_DRAWS_BY_PLAN", 300);
  std::uint64_t valid = 0;
  for (std::uint64_t seed = first; seed < first + draws; ++seed) {
    INFO("seed " << seed);
    const std::string refusal = check_agrees_with_plan(random_job(seed, 64));
    valid += refusal.empty();
    if (!refusal.empty())
      std::printf("seed %llu is refused: %s\n", static_cast<unsigned long long>(seed), refusal.c_str());
  }
  std::printf("%llu of %llu random jobs are valid\n", static_cast<unsigned long long>(valid),
              static_cast<unsigned long long>(draws));
  CHECK(2 * valid >= draws);
}

TEST_CASE("many random jobs train with the same bits in eager, interpreter and replay") {
  const std::uint64_t first = number_of("RONDO_DRAWS_SEED", 1), draws = number_of("RONDO_DRAWS_BY_TRAIN", 40);
  for (std::uint64_t seed = first, trained = 0; trained < draws; ++seed) {
    INFO("seed " << seed);
    const RandomJob job = random_job(1'000'000 + seed, 6);
    if (!check_agrees_with_plan(job).empty()) continue;
    check_bits(Place(), job);
    ++trained;
  }
}

}  // namespace
}  // namespace rondo
