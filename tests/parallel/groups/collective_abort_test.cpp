#include "parallel/groups/collective_abort.h"

#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <latch>

namespace rondo {
namespace {

TEST_CASE("endings that wait for each other and for their caller end together") {
  Endings endings;
  CHECK(!endings.begun());
  std::latch all(3);  // two endings, and what follows their beginning
  std::atomic<int> ended = 0;
  const std::function<void()> ending = [&] {
    all.arrive_and_wait();
    ++ended;
  };
  endings.begin({ending, ending});
  CHECK(endings.begun());
  all.arrive_and_wait();
  endings.wait();
  CHECK(ended == 2);
}

TEST_CASE("endings begin once, and not after they were waited for") {
  std::atomic<int> ended = 0;
  const std::function<void()> ending = [&] { ++ended; };
  Endings twice;
  twice.begin({ending});
  twice.begin({ending});
  twice.wait();
  CHECK(ended == 1);
  Endings late;
  late.wait();
  late.begin({ending});
  CHECK(!late.begun());
  CHECK(ended == 1);
}

}  // namespace
}  // namespace rondo
