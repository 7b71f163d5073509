// When a launcher gives up starting a job again.
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

TEST_CASE("PRO-22: two failures in one step without a new checkpoint are a loop") {
  CrashLoop loop;
  CHECK(loop.add(failed(20, 15)).empty());
  CHECK(loop.add(failed(20, 15)) == "it failed twice in step 20, and nothing was saved in between");
}

TEST_CASE("a new checkpoint, or another step, is no loop yet") {
  CrashLoop loop;
  for (const auto& [step, saved] : {std::pair{20, 10}, {20, 15}, {21, 15}, {20, 15}, {22, 15}})
    CHECK(loop.add(failed(step, saved)).empty());
}

TEST_CASE("three restarts that come to no new step are a loop, and one that does begins the count anew") {
  CrashLoop loop;
  for (const int step : {20, 12, 14, 21, 13, 12}) CHECK(loop.add(failed(step, -1)).empty());
  CHECK(loop.add(failed(13, -1)) == "3 restarts came no further than step 21, and saved nothing");
}

TEST_CASE("starts that fail before their first step have three restarts") {
  CrashLoop loop;
  for (int i = 0; i < 3; ++i) CHECK(loop.add(failed(0, -1)).empty());
  CHECK_FALSE(loop.add(failed(0, -1)).empty());
}

TEST_CASE("of programs that say no step nothing is known") {
  CrashLoop loop;
  for (int i = 0; i < 10; ++i) CHECK(loop.add(failed(-1, -1)).empty());
}

}  // namespace
}  // namespace rondo::launch
