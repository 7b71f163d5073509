// A JSON value of a file that may hold anything: every access is checked, and a value that does not fit ends
// in Error(data) with file, path and value.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace rondo {

// Reads and parses `file`, at most `max_bytes` of it; `text` gets what stands in it. Throws Error(data).
nlohmann::json read_json(const std::string& file, std::int64_t max_bytes, std::string& text);

// A place in a document that outlives it.
class JsonView {
 public:
  JsonView(const nlohmann::json& value, const std::string& file) : JsonView(value, file, "") {}

  const nlohmann::json& raw() const { return *value_; }
  std::string place() const;  // file and path, for messages

  JsonView at(const std::string& key) const;                   // must be there
  std::optional<JsonView> find(const std::string& key) const;  // nothing if it is missing or null
  std::vector<JsonView> items() const;                         // of an array
  JsonView child(const nlohmann::json& value, const std::string& name) const;

  const std::string& text() const;
  bool boolean() const;
  std::int64_t integer(std::int64_t least, std::int64_t most) const;
  const nlohmann::json& object() const;

  // A boolean that is `fallback` where it is missing.
  bool flag(const std::string& key, bool fallback) const;

  // Error(data): place, value, and what is wrong with it.
  [[noreturn]] void refuse(const std::string& why) const;

 private:
  JsonView(const nlohmann::json& value, const std::string& file, std::string path)
      : value_(&value), file_(&file), path_(std::move(path)) {}

  const nlohmann::json* value_;
  const std::string* file_;
  std::string path_;  // e.g. model.merges[3]
};

}  // namespace rondo
