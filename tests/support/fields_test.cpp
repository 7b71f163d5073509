#include "support/fields.h"

#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <limits>

using namespace rondo;

namespace {

enum class Rack : std::uint8_t { top, middle };
}  // namespace
template <>
inline constexpr auto rondo::kNamesOf<Rack> = std::to_array<std::string_view>({"top", "the-middle"});
namespace {

struct Oven {
  std::int64_t minutes = 10;
  std::optional<double> celsius;
  std::string mode = "bake";
  Rack rack = Rack::middle;
  std::optional<Rack> grid, second_grid;
  static const Fields& fields() {
    static const Fields list = {
        field("minutes", &Oven::minutes, "how long", {.minimum = 1, .below = 100, .unit = "minutes"}),
        field("celsius", &Oven::celsius, "how hot", {.above = 0}),
        field("mode", &Oven::mode, "how", {.allowed = {"bake", "grill"}, .later = {"steam"}}),
        field("rack", &Oven::rack, "where"),
        field("grid", &Oven::grid, "where, or wherever there is room", {.unset = "auto"}),
        field("second_grid", &Oven::second_grid, "where, if there is one")};
    return list;
  }
};

const Field& oven(const char* name) { return *find_field(Oven::fields(), name); }

}  // namespace

TEST_CASE("a field is read and written through its description") {
  Oven object = from_values<Oven>({{"minutes", std::int64_t{20}}, {"celsius", 180.0}});
  CHECK(object.minutes == 20);
  CHECK(object.celsius == 180.0);
  CHECK(object.mode == "bake");
  CHECK(oven("celsius").get(&object) == FieldValue(180.0));
  oven("celsius").set(&object, {});
  CHECK_FALSE(object.celsius.has_value());
  CHECK(find_field(Oven::fields(), "colour") == nullptr);
}

TEST_CASE("an enum is a text everywhere but in the member, and its names are what is allowed") {
  Oven object;
  CHECK(oven("rack").type == FieldType::text);
  CHECK(oven("rack").default_value == FieldValue("the-middle"));
  CHECK(range_text(oven("rack")) == "one of top, the-middle");
  CHECK(broken_rule(oven("rack"), std::string("bottom")) == "allowed: top, the-middle");
  oven("rack").set(&object, std::string("top"));
  CHECK(object.rack == Rack::top);
  CHECK(oven("rack").get(&object) == FieldValue("top"));
  CHECK_THROWS(oven("rack").set(&object, std::string("bottom")));
}

TEST_CASE("an optional enum is unset, or has a text that says so") {
  Oven object;
  CHECK_FALSE(oven("grid").optional);
  CHECK(oven("grid").default_value == FieldValue("auto"));
  CHECK(range_text(oven("grid")) == "one of auto, top, the-middle");
  oven("grid").set(&object, std::string("the-middle"));
  CHECK(object.grid == Rack::middle);
  oven("grid").set(&object, std::string("auto"));
  CHECK_FALSE(object.grid.has_value());
  CHECK(oven("second_grid").optional);
  CHECK(oven("second_grid").default_value == FieldValue());
  CHECK(range_text(oven("second_grid")) == "one of top, the-middle");
  oven("second_grid").set(&object, std::string("top"));
  oven("second_grid").set(&object, {});
  CHECK_FALSE(object.second_grid.has_value());
}

TEST_CASE("a broken rule is told and an unset value breaks none") {
  CHECK(broken_rule(oven("minutes"), std::int64_t{99}).empty());
  CHECK(broken_rule(oven("minutes"), std::int64_t{100}) == "must be at least 1 and less than 100");
  CHECK(broken_rule(oven("celsius"), FieldValue()).empty());
  CHECK(broken_rule(oven("celsius"), 0.0) == "must be more than 0");
  CHECK(broken_rule(oven("celsius"), std::numeric_limits<double>::quiet_NaN()) == "must be finite");
  Field unbounded = oven("celsius");
  unbounded.rule.infinite = true;
  CHECK(broken_rule(unbounded, std::numeric_limits<double>::infinity()).empty());
  CHECK(broken_rule(unbounded, -std::numeric_limits<double>::infinity()) == "must be more than 0");
  CHECK(broken_rule(oven("celsius"), std::numeric_limits<double>::infinity()) == "must be finite");
  CHECK(broken_rule(oven("mode"), std::string("fry")) == "allowed: bake, grill");
  CHECK(broken_rule(oven("mode"), std::string("steam")) ==
        "this value needs a feature that is not in this version; allowed: bake, grill");
  CHECK(range_text(oven("mode")) == "one of bake, grill");
}

TEST_CASE("a number is written so that it reads back to the same bits, and not as an integer") {
  for (const double value : {0.1, 1.0 / 3, 1e-8, 1e22, 5e-324, 1.7976931348623157e308, -0.0, 500000.0}) {
    const std::string text = to_toml(FieldValue(value));
    INFO(text);
    CHECK(std::strtod(text.c_str(), nullptr) == value);
    CHECK(text.find_first_of(".e") != std::string::npos);
  }
  CHECK(to_toml(FieldValue(1.0)) == "1.0");
  CHECK(to_toml(FieldValue(std::string("a\"\\\n"))) == "\"a\\\"\\\\\\u000a\"");
  CHECK(to_toml(FieldValue(std::vector<std::string>{"a", "b"})) == "[\"a\", \"b\"]");
}
