#include "support/text/json_view.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>

using namespace rondo;

namespace {

const nlohmann::json kDocument = {{"a b", {1, -1}}, {"name", "x"}, {"size", 1.5}, {"none", nullptr}};

// Breaks every rule once.
void read_wrongly(const JsonView& view) {
  CHECK(view.at("a b").items()[1].integer(0, 9) == 0);
  CHECK(view.at("name").number() == 0);
  CHECK(view.at("size").text().empty());
  CHECK(view.at("none").object().empty());
  CHECK(view.at("missing").at("deeper").items().empty());  // reported once
  view.has_only({"name", "more"}, {"a b", "size"});
}

}  // namespace

TEST_CASE("the problems of a document are collected with place, value and rule") {
  std::vector<std::string> problems;
  const JsonSource source{.name = "f.json", .advice = "; mend it", .problems = &problems};
  read_wrongly(JsonView(kDocument, source));
  CHECK(problems ==
        std::vector<std::string>{"f.json: [\"a b\"][1] = -1: must be a whole number from 0 to 9; mend it",
                                 "f.json: name = \"x\": must be a number; mend it",
                                 "f.json: size = 1.5: must be a string; mend it",
                                 "f.json: none = null: must be an object; mend it",
                                 "f.json: missing is missing; mend it", "f.json: more is missing; mend it",
                                 "f.json: none = null: is unknown; mend it"});
}

TEST_CASE("the first problem of a document is thrown where nobody collects them") {
  const JsonSource source{.code = ExitCode::checkpoint};
  try {
    JsonView(kDocument, source).at("a b").items()[1].integer(0, 9);
    FAIL("nothing was thrown");
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::checkpoint);
    CHECK(std::string(error.what()) == "[\"a b\"][1] = -1: must be a whole number from 0 to 9");
  }
}

TEST_CASE("a number in a message is whole only within its range") {
  CHECK(whole_number(7, 0, 7) == 7);
  for (const nlohmann::json& other :
       {nlohmann::json(8), nlohmann::json(-1), nlohmann::json(7.0), nlohmann::json(UINT64_MAX)})
    CHECK_FALSE(whole_number(other, 0, 7));
}

TEST_CASE("a text that is nested too deeply is refused before it is parsed, whatever its strings have") {
  const auto nested = [](int depth) {
    const auto size = static_cast<std::size_t>(depth);
    return std::string(size, '[') + R"("\\\"[[[[")" + std::string(size, ']');
  };
  CHECK_FALSE(json_or_discarded<nlohmann::json>(nested(kMaxNesting)).is_discarded());
  for (const int depth : {kMaxNesting + 1, 1'000'000}) {
    CHECK(json_or_discarded<nlohmann::json>(nested(depth)).is_discarded());
    CHECK_THROWS_WITH(parse_json(nested(depth), {.name = "f"}),
                      "f: is not JSON: it is nested deeper than 512");
  }
  CHECK_FALSE(is_too_deep("\"" + nested(1000)));
}
