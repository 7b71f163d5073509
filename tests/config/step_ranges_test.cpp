#include "config/schema/step_ranges.h"

#include <catch2/catch_test_macros.hpp>

#include "tests/config/config_texts.h"

using rondo::message_of;

TEST_CASE("steps whose samples are left out are single steps and ranges that ascend, from 1 on") {
  std::string rule;
  const auto ranges = rondo::read_step_ranges({"12000-12040", "7"}, &rule);
  CHECK(rule.empty());
  REQUIRE(ranges.size() == 2);
  CHECK((ranges[0].first == 12000 && ranges[0].last == 12040));
  CHECK((ranges[1].first == 7 && ranges[1].last == 7));
  for (const char* entry : {"", "-", "0", "0-4", "9-8", "1-", "-3", "1-2-3", "1 - 2", "x", "10000000001"})
    CHECK(message_of("", {std::string("--training.skip_data_of_steps=[\"5\", \"") + entry + "\"]"}) ==
          std::string("command line: --training.skip_data_of_steps=[\"5\", \"") + entry +
              "\"]: must hold steps like 12000-12040 or 15000, but \"" + entry + "\" is none");
  CHECK(message_of("[training]\nskip_data_of_steps = [\"0-4\"]\n") ==
        "x.toml:2:1: training.skip_data_of_steps = [\"0-4\"]: must hold steps like 12000-12040 or 15000, but "
        "\"0-4\" is none");
}
