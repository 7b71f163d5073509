// Converts flags, which are text, and file values, which have a type; both pass the same check.
// Numbers are read with std::from_chars: whole or not at all, independent of the locale. The only
// conversion is from a file's integer to a number. A list in brackets is parsed as TOML, so flags
// and files share one syntax.
#include <fmt/format.h>

#include <charconv>

#include "config/read/assignment.h"

namespace rondo {
namespace {

bool has_type(const FieldValue& value, FieldType type) {
  switch (type) {
    case FieldType::boolean:
      return std::holds_alternative<bool>(value);
    case FieldType::integer:
      return std::holds_alternative<std::int64_t>(value);
    case FieldType::number:
      return std::holds_alternative<double>(value);
    case FieldType::text:
      return std::holds_alternative<std::string>(value);
    case FieldType::numbers:
      return std::holds_alternative<std::vector<double>>(value);
    case FieldType::texts:
      return std::holds_alternative<std::vector<std::string>>(value);
  }
  return false;
}

// Turns an empty list of texts into an empty list of numbers if `type` needs it.
FieldValue as_list(FieldValue value, FieldType type) {
  const auto* texts = std::get_if<std::vector<std::string>>(&value);
  return type == FieldType::numbers && texts != nullptr && texts->empty() ? std::vector<double>() : value;
}

template <class Number>
FieldValue number_from(const std::string& text, const char* wanted, std::string& rule) {
  Number value{};
  const char* end = text.data() + text.size();
  const char* begin = text.starts_with('+') ? text.data() + 1 : text.data();
  const auto [stop, error] = std::from_chars(begin, end, value);
  if (error == std::errc::result_out_of_range)
    rule = "is out of the range of 64 bits";
  else if (error != std::errc() || stop != end)
    rule = fmt::format("must be {}", wanted);
  if (!rule.empty()) return {};
  return value;
}

// Rejects a list of lists unless the field accepts it.
bool has_form(const Assignment& assignment, const Field& field) {
  return !assignment.of_lists || field.rule.of_lists;
}

// Parses `a,b` or a TOML list.
FieldValue list_from(const std::string& text, const Field& field, std::string& rule) {
  const FieldType type = field.type;
  const bool of_texts = type == FieldType::texts;
  const std::string wanted =
      of_texts ? "a list of texts: a,b or [\"a\", \"b\"]" : "a list of numbers: 1,2 or [1, 2]";
  if (text.starts_with('[') || (!of_texts && !text.empty())) {
    Problems problems;
    const auto parsed =
        read_toml("list = " + (text.starts_with('[') ? text : "[" + text + "]"), "", problems);
    if (problems.empty() && parsed.size() == 1 && has_form(parsed[0], field))
      if (FieldValue list = as_list(parsed[0].value, type); has_type(list, type)) return list;
    rule = "must be " + wanted;
    return {};
  }
  std::vector<std::string> texts;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t comma = std::min(text.find(',', begin), text.size());
    if (comma > begin) texts.push_back(text.substr(begin, comma - begin));
    begin = comma + 1;
  }
  return as_list(texts, type);
}

FieldValue boolean_from(const Assignment& assignment, std::string& rule) {
  const std::string& text = assignment.flag_text;
  if (assignment.flag_without_text) return !assignment.negated;
  if (text == "true" || text == "True") return !assignment.negated;
  if (text == "false" || text == "False") return assignment.negated;
  rule = "must be true or false";
  return {};
}

FieldValue from_flag(const Assignment& assignment, const Field& field, std::string& rule) {
  const std::string& text = assignment.flag_text;
  if (field.type == FieldType::boolean) return boolean_from(assignment, rule);
  if (assignment.negated || assignment.flag_without_text) {
    rule = fmt::format("needs a value, {}", type_name(field.type));
    return {};
  }
  if (field.optional && (text == "None" || text == "none")) return {};
  switch (field.type) {
    case FieldType::integer:
      return number_from<std::int64_t>(text, "an integer", rule);
    case FieldType::number:
      return number_from<double>(text, "a number", rule);
    case FieldType::numbers:
    case FieldType::texts:
      return list_from(text, field, rule);
    default:
      return text;
  }
}

FieldValue from_file(const Assignment& assignment, const Field& field, std::string& rule) {
  const auto* integer = std::get_if<std::int64_t>(&assignment.value);
  if (field.type == FieldType::number && integer != nullptr) return static_cast<double>(*integer);
  if (FieldValue value = as_list(assignment.value, field.type);
      has_type(value, field.type) && has_form(assignment, field))
    return value;
  rule = fmt::format("must be {}{}", type_name(field.type),
                     assignment.of_lists       ? ", but is a list of lists"
                     : assignment.kind.empty() ? ""
                                               : ", but is " + assignment.kind);
  return {};
}

}  // namespace

FieldValue read_value(const Assignment& assignment, const Field& field, std::string& rule) {
  rule.clear();
  FieldValue value =
      assignment.from_flag ? from_flag(assignment, field, rule) : from_file(assignment, field, rule);
  if (rule.empty()) rule = broken_rule(field, value);
  return rule.empty() ? value : FieldValue();
}

}  // namespace rondo
