// A view carries its path, so a refusal deep inside a file names its place without work by the
// caller. Integers are compared as unsigned if the parser stored them so, since a cast would turn a
// huge number into a negative one. A value in a message is written in ASCII, so that cutting it
// never splits a character.
#include "support/text/json_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "support/printable.h"

namespace rondo {
namespace {

using Json = nlohmann::json;

// Stands for a missing key when problems are collected. Its own problems are not reported.
const Json& missing_value() {
  static const Json value;
  return value;
}

void report(const JsonSource& source, std::string problem) {
  problem += source.advice;
  if (source.problems == nullptr) throw Error(source.code, problem);
  source.problems->push_back(std::move(problem));
}

bool is_plain(const std::string& key) {
  return !key.empty() && std::isdigit(static_cast<unsigned char>(key[0])) == 0 &&
         std::all_of(key.begin(), key.end(),
                     [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
}

}  // namespace

bool is_too_deep(std::string_view text) {
  int depth = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '"') {
      while (++at < text.size() && text[at] != '"')
        if (text[at] == '\\') ++at;
    } else if (text[at] == '[' || text[at] == '{') {
      if (++depth > kMaxNesting) return true;
    } else if (text[at] == ']' || text[at] == '}') {
      --depth;
    }
  }
  return false;
}

Json parse_json(std::string_view text, const JsonSource& source) {
  constexpr std::size_t kLongest = 300;
  std::string problem = "it has a NUL";  // the parser would stop there
  try {
    const bool has_nul = text.find('\0') != text.npos;
    if (!has_nul && !is_too_deep(text)) return Json::parse(text);
    if (!has_nul) problem = fmt::format("it is nested deeper than {}", kMaxNesting);
  } catch (const Json::exception& error) {
    problem = error.what();
    problem = printable(problem.substr(problem.find("] ") + 2), kLongest);  // after the class name
  }
  throw Error(source.code, fmt::format("{}{}is not JSON: {}{}", source.name, source.name.empty() ? "" : ": ",
                                       problem, source.advice));
}

std::string shown_json(const Json& value) {
  constexpr std::size_t kLongest = 100;
  const std::string text = value.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
  return text.size() <= kLongest ? text : text.substr(0, kLongest) + "...";
}

std::optional<std::int64_t> whole_number(const Json& value, std::int64_t least, std::int64_t most) {
  if (!value.is_number_integer()) return std::nullopt;
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX) return std::nullopt;
  const auto number = value.get<std::int64_t>();
  return number >= least && number <= most ? std::optional(number) : std::nullopt;
}

std::string JsonView::place() const {
  return source_->name + (source_->name.empty() || path_.empty() ? "" : ": ") + path_;
}

std::string JsonView::path_of(const std::string& key) const {
  if (!is_plain(key)) return fmt::format("{}[{}]", path_, shown_json(key));
  return path_.empty() ? key : path_ + "." + key;
}

void JsonView::refuse(const std::string& rule) const {
  if (value_ != &missing_value())
    report(*source_, fmt::format("{} = {}: {}", place(), shown_json(*value_), rule));
}

void JsonView::refuse_missing(const std::string& key) const {
  if (value_ != &missing_value()) report(*source_, child(*value_, key).place() + " is missing");
}

JsonView JsonView::child(const Json& value, const std::string& name) const {
  return {value, *source_, path_of(name)};
}

JsonView JsonView::at(const std::string& key) const {
  const Json& value = object();
  const auto field = value.find(key);
  if (field != value.end()) return child(*field, key);
  refuse_missing(key);
  return child(missing_value(), key);
}

std::optional<JsonView> JsonView::find(const std::string& key) const {
  const Json& value = object();
  const auto field = value.find(key);
  if (field == value.end() || field->is_null()) return std::nullopt;
  return child(*field, key);
}

std::vector<JsonView> JsonView::items() const {
  if (!value_->is_array()) {
    refuse("must be an array");
    return {};
  }
  std::vector<JsonView> views;
  views.reserve(value_->size());
  for (std::size_t i = 0; i < value_->size(); ++i)
    views.push_back({(*value_)[i], *source_, fmt::format("{}[{}]", path_, i)});
  return views;
}

const std::string& JsonView::text() const {
  static const std::string kEmpty;
  if (value_->is_string()) return value_->get_ref<const std::string&>();
  refuse("must be a string");
  return kEmpty;
}

bool JsonView::boolean() const {
  if (!value_->is_boolean()) refuse("must be true or false");
  return value_->is_boolean() && value_->get<bool>();
}

double JsonView::number() const {
  const bool is_number = value_->is_number() && std::isfinite(value_->get<double>());
  if (!is_number) refuse("must be a number");
  return is_number ? value_->get<double>() : 0;
}

std::int64_t JsonView::integer(std::int64_t least, std::int64_t most) const {
  const auto number = whole_number(*value_, least, most);
  if (!number) refuse(fmt::format("must be a whole number from {} to {}", least, most));
  return number.value_or(least);
}

const Json& JsonView::object() const {
  static const Json kEmpty = Json::object();
  if (value_->is_object()) return *value_;
  refuse("must be an object");
  return kEmpty;
}

bool JsonView::flag(const std::string& key, bool fallback) const {
  const std::optional<JsonView> value = find(key);
  return value ? value->boolean() : fallback;
}

void JsonView::has_only(std::initializer_list<std::string_view> required,
                        std::initializer_list<std::string_view> optional) const {
  const Json& fields = object();
  for (const std::string_view key : required)
    if (!fields.contains(key)) refuse_missing(std::string(key));
  for (const auto& [key, value] : fields.items())
    if (std::find(required.begin(), required.end(), key) == required.end() &&
        std::find(optional.begin(), optional.end(), key) == optional.end())
      child(value, key).refuse("is unknown");
}

}  // namespace rondo
