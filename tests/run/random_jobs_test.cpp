// Tests a fixed sample of the random jobs of random_jobs_full_test.cpp.
#include "tests/run/random_jobs.h"

namespace rondo {
namespace {

TEST_CASE("config check and plan agree about random jobs") {
  int valid = 0;
  for (std::uint64_t seed = 1; seed <= 12; ++seed)
    valid += check_agrees_with_plan(random_job(seed, 16)).empty();
  CHECK(valid >= 6);
}

TEST_CASE("random jobs train with the same bits in eager, interpreter and replay") {
  int trained = 0;
  for (std::uint64_t seed = 1; trained < 4; ++seed) {
    const RandomJob job = random_job(1000 + seed, 4);
    if (!check_agrees_with_plan(job).empty()) continue;
    check_bits(Place(), job);
    ++trained;
  }
}

}  // namespace
}  // namespace rondo
