#include "models/hugging_face/fields_reader.h"

#include <fmt/format.h>

#include "support/error.h"

namespace rondo::hugging_face {

using Json = nlohmann::json;

std::string shown(const Json& value) {
  constexpr std::size_t kLongest = 100;
  const std::string text = value.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
  return text.size() <= kLongest ? text : text.substr(0, kLongest) + "...";
}

const Json* FieldsReader::take(const std::string& name) {
  known_.insert(name);
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

const Json* FieldsReader::require(const std::string& name) {
  const Json* value = take(name);
  if (value == nullptr) problems_.push_back(prefix_ + name + " is missing");
  return value;
}

void FieldsReader::take_size(const std::string& name, const Fields& fields, const char* ours,
                             FieldValues& sizes) {
  const Json* value = take(name);
  if (value == nullptr) return;
  const Field* field = find_field(fields, ours);
  RONDO_ASSERT(field != nullptr, fmt::format("the model has no field {}", ours));
  FieldValue ours_value;
  const bool small = !value->is_number_unsigned() || value->get<std::uint64_t>() <= 1ull << 62;
  if (field->type == FieldType::integer && value->is_number_integer() && small)
    ours_value = value->get<std::int64_t>();
  else if (field->type == FieldType::number && value->is_number())
    ours_value = value->get<double>();
  else if (field->type == FieldType::boolean && value->is_boolean())
    ours_value = value->get<bool>();
  else
    return fail(name, *value, fmt::format("must be {}", type_name(field->type)));
  if (const std::string rule = broken_rule(*field, ours_value); !rule.empty())
    return fail(name, *value, rule);
  sizes[ours] = ours_value;
}

void FieldsReader::take_only(const std::string& name, const Json& only, const std::string& why) {
  const Json* value = take(name);
  if (value != nullptr && *value != only)
    fail(name, *value, fmt::format("{} not in this version; the only value is {}", why, shown(only)));
}

void FieldsReader::fail(const std::string& name, const Json& value, const std::string& rule) {
  problems_.push_back(fmt::format("{}{} = {}: {}", prefix_, name, shown(value), rule));
}

std::vector<std::string> FieldsReader::unknown() const {
  std::vector<std::string> names;
  for (const auto& [name, value] : object_.items())
    if (!known_.contains(name)) names.push_back(name);
  return names;
}

}  // namespace rondo::hugging_face
