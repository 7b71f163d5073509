// Checked access to untrusted JSON: from files, peers and other programs.
//
// A value that breaks a rule is a problem "PLACE = VALUE: RULE", such as
//   tokenizer.json: model.merges[3] = 7: must be a string
// The source of the document decides whether the first problem is thrown or all are collected. When
// collecting, an accessor with a problem returns an empty value in its range, and nothing below a
// missing key is reported again.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "support/error.h"

namespace rondo {

// The source of a document, and the destination of its problems.
struct JsonSource {
  std::string name = "";                         // prefix of every place, such as a file's path
  ExitCode code = ExitCode::data;                // of the Error for the first problem
  std::string advice = "";                       // suffix of every problem: "; measure again"
  std::vector<std::string>* problems = nullptr;  // collects all problems; then nothing is thrown
};

inline constexpr int kMaxNesting = 512;  // values that contain each other recurse in their destructors

// Returns whether brackets outside of strings are nested deeper than kMaxNesting.
bool is_too_deep(std::string_view text);

// Parses a text. Throws Error(source.code) if it is not one JSON value, or is too deep.
nlohmann::json parse_json(std::string_view text, const JsonSource& source);

// Parses a text as `Json`. Returns a discarded value if it is not one JSON value, or is too deep.
template <class Json>
Json json_or_discarded(std::string_view text) {
  if (is_too_deep(text)) return Json(Json::value_t::discarded);
  return Json::parse(text, nullptr, /*allow_exceptions=*/false);
}

// Returns JSON in ASCII for a message, at most 100 bytes.
std::string shown_json(const nlohmann::json& value);

// Returns a whole number in this range, or nullopt.
std::optional<std::int64_t> whole_number(const nlohmann::json& value, std::int64_t least, std::int64_t most);

// A value and its place in a document. REQUIRES: the document and its source outlive it.
class JsonView {
 public:
  JsonView(const nlohmann::json& value, const JsonSource& source) : JsonView(value, source, "") {}
  JsonView(const nlohmann::json& value, JsonSource&& source) = delete;

  const nlohmann::json& raw() const { return *value_; }
  const JsonSource& source() const { return *source_; }
  std::string place() const;  // the source's name and the path, for messages

  JsonView at(const std::string& key) const;                   // a missing key is a problem
  std::optional<JsonView> find(const std::string& key) const;  // nullopt: missing or null
  std::vector<JsonView> items() const;                         // of an array
  JsonView child(const nlohmann::json& value, const std::string& name) const;

  const std::string& text() const;
  bool boolean() const;
  double number() const;  // finite
  std::int64_t integer(std::int64_t least, std::int64_t most) const;
  const nlohmann::json& object() const;

  // Returns a boolean, or `fallback` if it is missing.
  bool flag(const std::string& key, bool fallback) const;
  // Refuses an object that lacks one of `required`, or has a key of neither list.
  void has_only(std::initializer_list<std::string_view> required,
                std::initializer_list<std::string_view> optional = {}) const;

  void refuse(const std::string& rule) const;
  void refuse_missing(const std::string& key) const;

 private:
  JsonView(const nlohmann::json& value, const JsonSource& source, std::string path)
      : value_(&value), source_(&source), path_(std::move(path)) {}
  std::string path_of(const std::string& key) const;

  const nlohmann::json* value_;
  const JsonSource* source_;
  std::string path_;  // e.g. model.merges[3]
};

}  // namespace rondo
