#include "parallel/groups/collective_abort.h"

#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <latch>

namespace rondo {
namespace {

TEST_CASE("aborts that wait for each other and for their caller end together") {
  CollectiveAbort abort;
  CHECK(!abort.started());
  std::latch started(3);  // two actions and the caller
  std::atomic<int> ended = 0;
  const std::function<void()> action = [&] {
    started.arrive_and_wait();
    ++ended;
  };
  abort.start({action, action});
  CHECK(abort.started());
  started.arrive_and_wait();
  abort.wait();
  CHECK(ended == 2);
}

TEST_CASE("an abort starts once, and not after the wait") {
  std::atomic<int> ended = 0;
  const std::function<void()> action = [&] { ++ended; };
  CollectiveAbort twice;
  twice.start({action});
  twice.start({action});
  twice.wait();
  CHECK(ended == 1);
  CollectiveAbort late;
  late.wait();
  late.start({action});
  CHECK(!late.started());
  CHECK(ended == 1);
}

}  // namespace
}  // namespace rondo
