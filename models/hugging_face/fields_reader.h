// Reads the fields of an object of a config.json one by one, and tracks those not read yet. For one
// object of one file, on one thread.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "support/fields.h"
#include "support/text/json_view.h"

namespace rondo::hugging_face {

class FieldsReader {
 public:
  // REQUIRES: `object` is a JSON object, and its source collects problems.
  explicit FieldsReader(JsonView object) : object_(std::move(object)) {}

  std::vector<std::string>& problems() { return *object_.source().problems; }

  // Returns nullopt if the field is absent or null. Marks the field as known.
  std::optional<JsonView> take(const std::string& name);
  // Like take, but reports a problem if the field is absent.
  std::optional<JsonView> require(const std::string& name);

  // Stores the value of `name`, if present, in `sizes` as field `ours` of `fields`, after checking
  // its type and range. A second name of the same field must have the same value.
  void take_size(const std::string& name, const Fields& fields, const char* ours, FieldValues& sizes);

  // Checks a field whose only supported value is `only`; absent and null mean it.
  void take_only(const std::string& name, const nlohmann::json& only, const std::string& why);

  // Returns the fields that were not taken, in order.
  std::vector<JsonView> unknown() const;

 private:
  JsonView object_;
  std::set<std::string> known_;
  std::map<std::string, std::string> names_;  // of the fields that take_size() stored, by ours
};

}  // namespace rondo::hugging_face
