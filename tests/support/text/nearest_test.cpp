#include "support/text/nearest.h"

#include <catch2/catch_test_macros.hpp>

using rondo::did_you_mean;
using rondo::edit_distance;

TEST_CASE("a swap of neighbours, an insertion and a change of case cost 1, 1 and 0") {
  CHECK(edit_distance("traning", "training") == 1);
  CHECK(edit_distance("setps", "steps") == 1);
  CHECK(edit_distance("STEPS", "steps") == 0);
  CHECK(edit_distance("", "abc") == 3);
}

TEST_CASE("the nearest name is suggested only when it is near") {
  const std::vector<std::string> names = {"training", "parallelism", "metrics"};
  CHECK(did_you_mean("traning", names) == " (did you mean training?)");
  CHECK(did_you_mean("zebra", names).empty());
  CHECK(did_you_mean("zebra", {}).empty());
}
