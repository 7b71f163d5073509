#include "support/text/nearest.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <optional>
#include <random>
#include <string>
#include <vector>

using rondo::did_you_mean;
using rondo::edit_distance;

TEST_CASE("a transposition, an insertion and a change of case cost 1, 1 and 0") {
  CHECK(edit_distance("traning", "training") == 1);
  CHECK(edit_distance("setps", "steps") == 1);
  CHECK(edit_distance("STEPS", "steps") == 0);
  CHECK(edit_distance("", "abc") == 3);
}

TEST_CASE("the nearest name is suggested only if it is near") {
  const std::vector<std::string> names = {"training", "parallelism", "metrics"};
  CHECK(did_you_mean("traning", names) == " (did you mean training?)");
  CHECK(did_you_mean("zebra", names).empty());
  CHECK(did_you_mean("zebra", {}).empty());
}

TEST_CASE("the search with early exits finds what comparing all names finds") {
  std::mt19937_64 random(7);
  const auto word = [&] {
    std::string text(random() % 9, ' ');
    for (char& c : text) c = "abBcC"[random() % 5];
    return text;
  };
  int near = 0;
  for (int i = 0; i < 2000; ++i) {
    const std::string query = word();
    std::vector<std::string> names(6);
    for (std::string& name : names) name = word();
    std::optional<std::string> best;
    int least = 1000;
    for (const std::string& name : names) {
      const int distance = edit_distance(query, name);
      const int allowed = std::max(1, static_cast<int>(std::max(query.size(), name.size())) / 3);
      if (distance <= allowed && distance < least) best = name, least = distance;
    }
    INFO(query);
    REQUIRE(rondo::nearest(query, names) == best);
    near += best.has_value();
  }
  CHECK(near > 200);
  CHECK(near < 1800);
}
