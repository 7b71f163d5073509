// Creates tables on the first use of a key, so quantize.linear.float8 needs no list of its own. A
// schema cannot express rules between keys and bounds that are functions; the reader checks them.
#include "config/json_schema.h"

#include <nlohmann/json.hpp>

#include "config/schema/job_config.h"
#include "config/schema/keys.h"
#include "config/schema/unsupported.h"
#include "models/parts/model_spec.h"
#include "support/text/field_json.h"

namespace rondo {
namespace {

using Json = nlohmann::ordered_json;

Json type_of(FieldType type) {
  switch (type) {
    case FieldType::boolean:
      return {{"type", "boolean"}};
    case FieldType::integer:
      return {{"type", "integer"}};
    case FieldType::number:
      return {{"type", "number"}};
    case FieldType::text:
      return {{"type", "string"}};
    case FieldType::numbers:
      return {{"type", "array"}, {"items", {{"type", "number"}}}};
    case FieldType::texts:
      return {{"type", "array"}, {"items", {{"type", "string"}}}};
  }
  return Json::object();
}

Json property_of(const Field& field) {
  const FieldRule& rule = field.rule;
  Json property = type_of(field.type);
  property["description"] = field.meaning + (rule.unit.empty() ? "" : " (" + rule.unit + ")");
  if (const Json value = json_of(field.default_value); !value.is_null()) property["default"] = value;
  if (!rule.unsupported.empty()) property["const"] = json_of(field.default_value);
  if (!rule.allowed.empty()) property["enum"] = rule.allowed;
  if (rule.of_lists) property["items"] = {{"type", {"string", "array"}}, {"items", {{"type", "string"}}}};
  Json& bounded = field.type == FieldType::numbers ? property["items"] : property;
  const auto bound = [&](const char* name, const std::optional<double>& value) {
    if (value) bounded[name] = *value;
  };
  bound("minimum", rule.minimum);
  bound("exclusiveMinimum", rule.above);
  bound("maximum", rule.maximum);
  bound("exclusiveMaximum", rule.below);
  return property;
}

Json& table(Json& parent, std::string_view name) {
  Json& properties = parent["properties"][std::string(name)];
  properties["type"] = "object";
  properties["additionalProperties"] = false;
  return properties;
}

// Returns the table of a path such as "quantize.linear.float8".
Json& table_of_path(Json& root, std::string_view path) {
  const std::size_t dot = path.rfind('.');
  return dot == std::string_view::npos
             ? table(root, path)
             : table(table_of_path(root, path.substr(0, dot)), path.substr(dot + 1));
}

}  // namespace

std::string json_schema() {
  Json root = {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
               {"title", "A configuration of rondo"},
               {"type", "object"},
               {"additionalProperties", false}};
  root["properties"]["include"] = type_of(FieldType::texts);
  root["properties"]["include"]["description"] = "files to read before this one, relative to its folder";
  for (const Section& section : sections()) {
    Json& keys = table_of_path(root, section.name);
    keys["description"] = section.meaning;
    for (const Field& field : *section.fields)
      if (!field.rule.flag_only) keys["properties"][field.name] = property_of(field);
  }
  for (const ModelSpec& model : model_specs())
    for (const Field& field : *model.fields) {
      Json property = type_of(field.type);
      property["description"] = field.meaning;
      Json& sizes = table_of_path(root, "model")["properties"];
      if (!sizes.contains(field.name)) sizes[field.name] = property;
    }
  for (const UnsupportedKey& key : unsupported_keys()) {
    Json& property = table_of_path(root, key.section)["properties"][key.field.name];
    property = key.fate == Fate::refused ? property_of(key.field) : Json{{"description", key.field.meaning}};
  }
  return root.dump(2) + "\n";
}

}  // namespace rondo
