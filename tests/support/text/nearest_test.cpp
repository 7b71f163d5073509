#include "support/text/nearest.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <optional>
#include <random>
#include <string>
#include <vector>

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

TEST_CASE("the search that gives words up early finds what comparing all of them finds") {
  std::mt19937_64 random(7);
  const auto word = [&] {
    std::string made(random() % 9, ' ');
    for (char& c : made) c = "abBcC"[random() % 5];
    return made;
  };
  int near = 0;
  for (int i = 0; i < 2000; ++i) {
    const std::string asked = word();
    std::vector<std::string> names(6);
    for (std::string& name : names) name = word();
    std::optional<std::string> best;
    int least = 1000;
    for (const std::string& name : names) {
      const int distance = edit_distance(asked, name);
      const int allowed = std::max(1, static_cast<int>(std::max(asked.size(), name.size())) / 3);
      if (distance <= allowed && distance < least) best = name, least = distance;
    }
    INFO(asked);
    REQUIRE(rondo::nearest(asked, names) == best);
    near += best.has_value();
  }
  CHECK(near > 200);
  CHECK(near < 1800);
}
