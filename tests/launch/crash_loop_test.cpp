// When a launcher stops restarting a job.
#include "launch/crash_loop.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

namespace rondo::launch {
namespace {

Failure failed(std::int64_t step, std::int64_t saved) {
  Failure failure;
  failure.step = step;
  failure.saved = saved;
  return failure;
}

TEST_CASE("two failures in one step without a new checkpoint are a crash loop") {
  CrashLoop loop;
  CHECK(loop.add(failed(20, 15)).empty());
  CHECK(loop.add(failed(20, 15)) == "it failed twice in step 20, and nothing was saved in between");
}

TEST_CASE("a new checkpoint or another step is no crash loop") {
  CrashLoop loop;
  for (const auto& [step, saved] : {std::pair{20, 10}, {20, 15}, {21, 15}, {20, 15}, {22, 15}})
    CHECK(loop.add(failed(step, saved)).empty());
}

TEST_CASE("three restarts without a new step are a crash loop, and a new step resets the count") {
  CrashLoop loop;
  for (const int step : {20, 12, 14, 21, 13, 12}) CHECK(loop.add(failed(step, -1)).empty());
  CHECK(loop.add(failed(13, -1)) == "3 restarts made no progress beyond step 21, and saved nothing");
}

TEST_CASE("three restarts are allowed before the first step") {
  CrashLoop loop;
  for (int i = 0; i < 3; ++i) CHECK(loop.add(failed(0, -1)).empty());
  CHECK_FALSE(loop.add(failed(0, -1)).empty());
}

TEST_CASE("programs that report no step may always restart") {
  CrashLoop loop;
  for (int i = 0; i < 10; ++i) CHECK(loop.add(failed(-1, -1)).empty());
}

}  // namespace
}  // namespace rondo::launch
