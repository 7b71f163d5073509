// Checked access to JSON that may hold anything: files, peers, other programs.
//
// A value that breaks a rule is a problem "PLACE = VALUE: RULE", such as
//   tokenizer.json: model.merges[3] = 7: must be a string
// The document's source says whether the first problem is thrown, or all are collected. Where they are
// collected, an accessor that found one returns an empty value in its range, and nothing below a missing key
// is reported again.
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

// Where a document comes from, and where its problems go.
struct JsonSource {
  std::string name = "";                         // begins every place: a file's path; may be empty
  ExitCode code = ExitCode::data;                // of the Error for the first problem
  std::string advice = "";                       // ends every problem: "; measure again with rondo tune"
  std::vector<std::string>* problems = nullptr;  // takes all problems, and nothing is thrown
};

// Throws Error(source.code) for a text that is not one JSON value.
nlohmann::json parse_json(std::string_view text, const JsonSource& source);

// JSON in ASCII for a message: at most 100 bytes of it.
std::string shown_json(const nlohmann::json& value);

// Empty for anything but a whole number in this range.
std::optional<std::int64_t> whole_number(const nlohmann::json& value, std::int64_t least, std::int64_t most);

// A value and its place in a document. The document and its source outlive it.
class JsonView {
 public:
  JsonView(const nlohmann::json& value, const JsonSource& source) : JsonView(value, source, "") {}
  JsonView(const nlohmann::json& value, JsonSource&& source) = delete;

  const nlohmann::json& raw() const { return *value_; }
  const JsonSource& source() const { return *source_; }
  std::string place() const;  // the source's name and the path, for messages

  JsonView at(const std::string& key) const;                   // a missing key is a problem
  std::optional<JsonView> find(const std::string& key) const;  // empty if the key is missing or null
  std::vector<JsonView> items() const;                         // of an array
  JsonView child(const nlohmann::json& value, const std::string& name) const;

  const std::string& text() const;
  bool boolean() const;
  double number() const;  // finite
  std::int64_t integer(std::int64_t least, std::int64_t most) const;
  const nlohmann::json& object() const;

  // A boolean that is `fallback` where it is missing.
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
