// Checks and texts for fields of any struct. The header erases the types, so this file visits
// variants. Rules are checked in the order unsupported, range, allowed values, check function, and
// only the first broken one is reported. Finiteness is checked before the range, since every
// comparison with a NaN is false. Doubles are written in the shortest form that reads back to the
// same bits, with ".0" if they look like integers.
#include "support/fields.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

namespace rondo {
namespace {

std::string bounds_text(const FieldRule& rule) {
  std::vector<std::string> parts;
  if (rule.minimum) parts.push_back(fmt::format("at least {}", *rule.minimum));
  if (rule.above) parts.push_back(fmt::format("more than {}", *rule.above));
  if (rule.maximum) parts.push_back(fmt::format("at most {}", *rule.maximum));
  if (rule.below) parts.push_back(fmt::format("less than {}", *rule.below));
  return fmt::format("{}", fmt::join(parts, " and "));
}

bool within(const FieldRule& rule, double value) {
  return !(rule.minimum && value < *rule.minimum) && !(rule.above && value <= *rule.above) &&
         !(rule.maximum && value > *rule.maximum) && !(rule.below && value >= *rule.below);
}

std::string broken_text_rule(const FieldRule& rule, const std::string& value) {
  if (value.find('\0') != std::string::npos) return "must not contain a NUL byte";
  if (rule.allowed.empty()) return "";
  for (const std::string& word : rule.allowed)
    if (word == value) return "";
  const std::string allowed = fmt::format("allowed: {}", fmt::join(rule.allowed, ", "));
  for (const std::string& word : rule.later)
    if (word == value) return "this value needs a feature that is not in this version; " + allowed;
  return allowed;
}

std::string broken_number_rule(const FieldRule& rule, double value) {
  if (!std::isfinite(value) && !(rule.infinite && std::isinf(value))) return "must be finite";
  return within(rule, value) ? "" : "must be " + bounds_text(rule);
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\')
      out += {'\\', c};
    else if (byte < 0x20 || byte == 0x7f)
      out += fmt::format("\\u{:04x}", byte);
    else
      out += c;
  }
  return out + '"';
}

// Returns the shortest decimal that reads back to the same bits, distinct from an integer.
std::string number_text(double value) {
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

struct TomlText {
  std::string operator()(std::monostate) const { return ""; }
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(std::int64_t value) const { return fmt::format("{}", value); }
  std::string operator()(double value) const { return number_text(value); }
  std::string operator()(const std::string& value) const { return quoted(value); }
  template <class Value>
  std::string operator()(const std::vector<Value>& values) const {
    std::vector<std::string> parts;
    for (const Value& value : values) parts.push_back((*this)(value));
    return fmt::format("[{}]", fmt::join(parts, ", "));
  }
};

}  // namespace

const Field* find_field(const Fields& fields, std::string_view name) {
  for (const Field& field : fields)
    if (field.name == name) return &field;
  return nullptr;
}

const char* type_name(FieldType type) {
  switch (type) {
    case FieldType::boolean:
      return "a boolean";
    case FieldType::integer:
      return "an integer";
    case FieldType::number:
      return "a number";
    case FieldType::text:
      return "a text";
    case FieldType::numbers:
      return "a list of numbers";
    case FieldType::texts:
      return "a list of texts";
  }
  return "";
}

std::string broken_rule(const Field& field, const FieldValue& value) {
  const FieldRule& rule = field.rule;
  if (std::holds_alternative<std::monostate>(value)) return "";
  if (!rule.unsupported.empty() && value != field.default_value)
    return fmt::format("{} not in this version; the only value is {}", rule.unsupported,
                       to_toml(field.default_value));
  if (const auto* integer = std::get_if<std::int64_t>(&value))
    if (!within(rule, static_cast<double>(*integer))) return "must be " + bounds_text(rule);
  if (const auto* number = std::get_if<double>(&value))
    if (const std::string broken = broken_number_rule(rule, *number); !broken.empty()) return broken;
  if (const auto* numbers = std::get_if<std::vector<double>>(&value))
    for (const double number : *numbers)
      if (const std::string broken = broken_number_rule(rule, number); !broken.empty()) return broken;
  if (const auto* text = std::get_if<std::string>(&value))
    if (const std::string broken = broken_text_rule(rule, *text); !broken.empty()) return broken;
  if (const auto* texts = std::get_if<std::vector<std::string>>(&value))
    for (const std::string& text : *texts)
      if (const std::string broken = broken_text_rule(rule, text); !broken.empty()) return broken;
  return rule.check ? rule.check(value) : "";
}

std::string range_text(const Field& field) {
  if (!field.rule.unsupported.empty()) return "only " + to_toml(field.default_value);
  if (!field.rule.allowed.empty()) return fmt::format("one of {}", fmt::join(field.rule.allowed, ", "));
  return bounds_text(field.rule);
}

std::string to_toml(const FieldValue& value) { return std::visit(TomlText{}, value); }

}  // namespace rondo
