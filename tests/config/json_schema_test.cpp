#include "config/json_schema.h"

#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>

#include "config/read/assignment.h"
#include "tests/config/config_texts.h"

namespace rondo {
namespace {

using nlohmann::json;

// The schema of a key in a table, or nullptr.
const json* find(const json& schema, const std::string& key) {
  const std::size_t dot = key.find('.');
  const json& properties = schema.at("properties");
  const auto found = properties.find(key.substr(0, dot));
  if (found == properties.end()) return nullptr;
  return dot == std::string::npos ? &*found : find(*found, key.substr(dot + 1));
}

bool has_type(const FieldValue& value, const std::string& type) {
  if (type == "boolean") return std::holds_alternative<bool>(value);
  if (type == "integer") return std::holds_alternative<std::int64_t>(value);
  if (type == "number") return std::holds_alternative<double>(value) || has_type(value, "integer");
  if (type == "string") return std::holds_alternative<std::string>(value);
  return type == "array" && (std::holds_alternative<std::vector<std::string>>(value) ||
                             std::holds_alternative<std::vector<double>>(value));
}

// As a validator would, of the words that the schema uses.
bool accepts(const json& schema, const FieldValue& value) {
  if (schema.contains("type") && !has_type(value, schema.at("type"))) return false;
  if (schema.contains("enum")) {
    const json& values = schema.at("enum");
    if (std::find(values.begin(), values.end(), std::get<std::string>(value)) == values.end()) return false;
  }
  if (!has_type(value, "number")) return true;
  const double number = std::holds_alternative<double>(value)
                            ? std::get<double>(value)
                            : static_cast<double>(std::get<std::int64_t>(value));
  return number >= schema.value("minimum", number) && number <= schema.value("maximum", number) &&
         !(schema.contains("exclusiveMinimum") && number <= schema.at("exclusiveMinimum")) &&
         !(schema.contains("exclusiveMaximum") && number >= schema.at("exclusiveMaximum"));
}

TEST_CASE("the schema has every key, and tables take no other") {
  const json schema = json::parse(json_schema());
  CHECK(schema.at("$schema") == "https://json-schema.org/draft/2020-12/schema");
  for (const Section& section : sections()) {
    CHECK(find(schema, section.name)->at("additionalProperties") == false);
    for (const Field& field : *section.fields) {
      INFO(section.name << "." << field.name);
      const json* property = find(schema, section.name + "." + field.name);
      REQUIRE((property != nullptr) == !field.rule.flag_only);
      if (property == nullptr) continue;
      CHECK(property->at("description").get<std::string>().starts_with(field.meaning));
      if (!std::holds_alternative<std::monostate>(field.default_value))
        CHECK(accepts(*property, field.default_value));
    }
  }
  CHECK(find(schema, "model.dim")->at("type") == "integer");
  CHECK(find(schema, "quantize.linear.float8.filter_fqns") != nullptr);
  CHECK(find(schema, "metrics.enable_wandb")->at("const") == false);
  CHECK_FALSE(accepts(*find(schema, "training.steps"), std::int64_t{0}));
  CHECK_FALSE(accepts(*find(schema, "optimizer.beta1"), 1.0));
  CHECK_FALSE(accepts(*find(schema, "optimizer.name"), std::string("SGD")));
}

TEST_CASE("every configuration that ships obeys the schema") {
  const json schema = json::parse(json_schema());
  for (const auto& entry : std::filesystem::directory_iterator(RONDO_SOURCE_DIR "/configs")) {
    Problems problems;
    for (const Assignment& assignment : read_toml_file(entry.path().string(), "test", problems)) {
      INFO(assignment.place << " " << assignment.key);
      const json* property = find(schema, assignment.key);
      REQUIRE(property != nullptr);
      CHECK(accepts(*property, assignment.value));
    }
    CHECK(problems.empty());
  }
}

}  // namespace
}  // namespace rondo
