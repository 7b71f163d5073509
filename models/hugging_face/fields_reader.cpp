#include "models/hugging_face/fields_reader.h"

#include <fmt/format.h>

#include "support/error.h"
#include "support/text/field_json.h"

namespace rondo::hugging_face {

std::optional<JsonView> FieldsReader::take(const std::string& name) {
  known_.insert(name);
  return object_.find(name);
}

std::optional<JsonView> FieldsReader::require(const std::string& name) {
  const std::optional<JsonView> value = take(name);
  if (!value) object_.refuse_missing(name);
  return value;
}

void FieldsReader::take_size(const std::string& name, const Fields& fields, const char* ours,
                             FieldValues& sizes) {
  const std::optional<JsonView> value = take(name);
  if (!value) return;
  const Field* field = find_field(fields, ours);
  RONDO_ASSERT(field != nullptr, fmt::format("the model has no field {}", ours));
  const nlohmann::json& raw = value->raw();
  constexpr std::int64_t kMax = std::int64_t{1} << 62;
  FieldValue ours_value;
  if (field->type == FieldType::integer && whole_number(raw, INT64_MIN, kMax))
    ours_value = raw.get<std::int64_t>();
  else if (field->type == FieldType::number && raw.is_number())
    ours_value = raw.get<double>();
  else if (field->type == FieldType::boolean && raw.is_boolean())
    ours_value = raw.get<bool>();
  else
    return value->refuse(fmt::format("must be {}", type_name(field->type)));
  if (const std::string rule = broken_rule(*field, ours_value); !rule.empty()) return value->refuse(rule);
  const auto [other, is_first] = names_.try_emplace(ours, name);
  if (!is_first && sizes.at(ours) != ours_value)
    return value->refuse(
        fmt::format("must be {} = {}; remove the wrong one", other->second, to_toml(sizes.at(ours))));
  sizes[ours] = ours_value;
}

void FieldsReader::take_only(const std::string& name, const nlohmann::json& only, const std::string& why) {
  const std::optional<JsonView> value = take(name);
  if (value && value->raw() != only)
    value->refuse(fmt::format("{} not in this version; the only value is {}", why, shown_json(only)));
}

std::vector<JsonView> FieldsReader::unknown() const {
  std::vector<JsonView> fields;
  for (const auto& [name, value] : object_.object().items())
    if (!known_.contains(name)) fields.push_back(object_.child(value, name));
  return fields;
}

}  // namespace rondo::hugging_face
