// Takes fields out of an object of a config.json one by one, and knows which are left. One object, one file,
// one thread.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "support/fields.h"
#include "support/text/json_view.h"

namespace rondo::hugging_face {

class FieldsReader {
 public:
  // REQUIRES: `object` is one, and its source collects problems.
  explicit FieldsReader(JsonView object) : object_(std::move(object)) {}

  std::vector<std::string>& problems() { return *object_.source().problems; }

  // Empty where the field is absent or null. The field counts as known from now on.
  std::optional<JsonView> take(const std::string& name);
  // Like take, and absent is a problem.
  std::optional<JsonView> require(const std::string& name);

  // Puts the value of `name`, if there, into `sizes` as field `ours` of `fields`, checked for type and range.
  void take_size(const std::string& name, const Fields& fields, const char* ours, FieldValues& sizes);

  // A switch whose only value here is `only`; absent and null mean it.
  void take_only(const std::string& name, const nlohmann::json& only, const std::string& why);

  // Fields that were not taken, in order.
  std::vector<JsonView> unknown() const;

 private:
  JsonView object_;
  std::set<std::string> known_;
};

}  // namespace rondo::hugging_face
