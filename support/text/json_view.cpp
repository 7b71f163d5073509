// A view carries the path that led to it, so a refusal deep inside of a file says where it is without any
// work by the caller. The size of the file is checked before it is read. Integers are compared as unsigned
// where the parser stored them so, since a cast would turn a huge number into a negative one. A value in a
// message is written in ASCII, so that cutting it never splits a character.
#include "support/text/json_view.h"

#include <fmt/format.h>

#include "support/error.h"
#include "support/files/file.h"

namespace rondo {
namespace {

constexpr std::size_t kShownBytes = 80;

bool is_plain(const std::string& key) {
  return !key.empty() && key.find_first_not_of("abcdefghijklmnopqrstuvwxyz_") == std::string::npos;
}

// The value as JSON, cut where it is long (between characters, as `dump` writes ASCII only).
std::string shown(const nlohmann::json& value) {
  if (value.is_object()) return "{...}";
  if (value.is_array()) return value.empty() ? "[]" : "[...]";
  std::string text = value.dump(-1, ' ', true);
  if (text.size() > kShownBytes) text = text.substr(0, kShownBytes) + "...";
  return text;
}

}  // namespace

nlohmann::json read_json(const std::string& file, std::int64_t max_bytes, std::string& text) {
  text = read_file(file, max_bytes, FileUse::data);
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::exception& problem) {
    throw Error(ExitCode::data, fmt::format("{}: is not JSON: {}", file, problem.what()));
  }
}

std::string JsonView::place() const { return path_.empty() ? *file_ : *file_ + ": " + path_; }

void JsonView::refuse(const std::string& why) const {
  throw Error(ExitCode::data, fmt::format("{} = {}: {}", place(), shown(*value_), why));
}

JsonView JsonView::child(const nlohmann::json& value, const std::string& name) const {
  if (!is_plain(name)) return {value, *file_, fmt::format("{}[{}]", path_, shown(name))};
  return {value, *file_, path_.empty() ? name : path_ + "." + name};
}

JsonView JsonView::at(const std::string& key) const {
  const auto found = object().find(key);
  if (found == value_->end()) throw Error(ExitCode::data, fmt::format("{}: has no \"{}\"", place(), key));
  return child(*found, key);
}

std::optional<JsonView> JsonView::find(const std::string& key) const {
  const auto found = object().find(key);
  if (found == value_->end() || found->is_null()) return std::nullopt;
  return child(*found, key);
}

std::vector<JsonView> JsonView::items() const {
  if (!value_->is_array()) refuse("must be an array");
  std::vector<JsonView> views;
  views.reserve(value_->size());
  for (std::size_t i = 0; i < value_->size(); ++i)
    views.push_back({(*value_)[i], *file_, fmt::format("{}[{}]", path_, i)});
  return views;
}

const std::string& JsonView::text() const {
  if (!value_->is_string()) refuse("must be a string");
  return value_->get_ref<const std::string&>();
}

bool JsonView::boolean() const {
  if (!value_->is_boolean()) refuse("must be true or false");
  return value_->get<bool>();
}

std::int64_t JsonView::integer(std::int64_t least, std::int64_t most) const {
  const bool too_large =
      value_->is_number_unsigned() && value_->get<std::uint64_t>() > static_cast<std::uint64_t>(most);
  if (!value_->is_number_integer() || too_large || value_->get<std::int64_t>() < least ||
      value_->get<std::int64_t>() > most)
    refuse(fmt::format("must be a whole number from {} to {}", least, most));
  return value_->get<std::int64_t>();
}

const nlohmann::json& JsonView::object() const {
  if (!value_->is_object()) refuse("must be an object");
  return *value_;
}

bool JsonView::flag(const std::string& key, bool fallback) const {
  const std::optional<JsonView> found = find(key);
  return found ? found->boolean() : fallback;
}

}  // namespace rondo
