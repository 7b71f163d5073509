// Tests the choice of the straggler. tests/run/replicas_test.cpp tests that a run names it.
#include "trainer/run/stragglers.h"

#include <catch2/catch_test_macros.hpp>

namespace rondo {
namespace {

TEST_CASE("the rank that waits least is a straggler if all others waited a fifth of the time longer") {
  const auto straggler = find_straggler({3.0, 2.9, 0.5, 3.5}, 10);
  REQUIRE(straggler);
  CHECK(straggler->rank == 2);
  CHECK(straggler->seconds == 2.9 - 0.5);
  CHECK_FALSE(find_straggler({3.0, 2.9, 0.5, 3.5}, 13));
  CHECK_FALSE(find_straggler({3.0, 0.6, 0.5, 3.5}, 10));  // two of them
  CHECK_FALSE(find_straggler({5.0}, 10));
  CHECK(find_straggler({0.0, 5.0}, 10)->rank == 0);
}

}  // namespace
}  // namespace rondo
