// Takes fields out of a config.json one by one, and collects what is wrong with them. One object, one file,
// one thread.
#pragma once

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "support/fields.h"

namespace rondo::hugging_face {

// A value in a message: JSON, at most 100 characters of it.
std::string shown(const nlohmann::json& value);

class FieldsReader {
 public:
  // `prefix` names the object for messages: "" or "rope_scaling.". Keeps references to both.
  FieldsReader(const nlohmann::json& object, std::vector<std::string>& problems, std::string prefix = "")
      : object_(object), problems_(problems), prefix_(std::move(prefix)) {}

  // Of the object `name` in this one. Its problems are this one's.
  FieldsReader inner(const std::string& name, const nlohmann::json& object) const {
    return {object, problems_, prefix_ + name + "."};
  }
  std::vector<std::string>& problems() { return problems_; }

  // nullptr where the field is absent or null. The field counts as known from now on.
  const nlohmann::json* take(const std::string& name);
  // Like take, and absent is a problem.
  const nlohmann::json* require(const std::string& name);

  // Puts the value of `name`, if there, into `sizes` as field `ours` of `fields`, checked for type and range.
  void take_size(const std::string& name, const Fields& fields, const char* ours, FieldValues& sizes);

  // A switch whose only value here is `only`; absent and null mean it.
  void take_only(const std::string& name, const nlohmann::json& only, const std::string& why);

  void fail(const std::string& name, const nlohmann::json& value, const std::string& rule);

  // Fields that were not taken, in order.
  std::vector<std::string> unknown() const;

 private:
  const nlohmann::json& object_;
  std::vector<std::string>& problems_;
  std::string prefix_;
  std::set<std::string> known_;
};

}  // namespace rondo::hugging_face
