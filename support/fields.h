// Reflection of plain structs of settings: name, type, default, range and meaning of each field,
// and how to read and write it. A struct lists its fields once, in `static const Fields& fields()`.
// The TOML reader, the flags, the help, the resolved file and the fingerprint use that list.
//
//   struct Metrics {
//     std::int64_t log_freq = 10;
//     static const Fields& fields();
//   };
//   const Fields& Metrics::fields() {
//     static const Fields list = {
//         field("log_freq", &Metrics::log_freq, "steps between lines on the console",
//               {.minimum = 1, .unit = "steps"})};
//     return list;
//   }
//
// A member may be bool, std::int64_t, double, std::string, std::vector<double>,
// std::vector<std::string>, an enum with names (enum_names.h), or a std::optional of one of them
// (unset by default). The value of an enum is text everywhere except in the member. Immutable after
// the first call of `fields()`, which is thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "support/enum_names.h"

namespace rondo {

enum class FieldType { boolean, integer, number, text, numbers, texts };

// The value of a field. std::monostate: an optional field that is not set.
using FieldValue = std::variant<std::monostate, bool, std::int64_t, double, std::string, std::vector<double>,
                                std::vector<std::string>>;

// Rules of a value. All given bounds must hold; for a list, for each of its values.
struct FieldRule {
  std::optional<double> minimum{};     // at least
  std::optional<double> above{};       // more than
  std::optional<double> maximum{};     // at most
  std::optional<double> below{};       // less than
  bool infinite = false;               // an infinity within the bounds is accepted
  std::vector<std::string> allowed{};  // accepted texts; empty: any, or all names of the enum
  std::string unset{};                 // for an optional enum: the text of the unset value, "auto"
  std::vector<std::string> later{};    // for text: values of torchtitan that this version lacks
  std::string unit{};
  std::string unsupported{};  // the missing feature; if set, only the default is accepted
  bool flag_only = false;     // a flag of the command, not a key of a file
  bool of_lists = false;      // for texts: each may be a list, joined by +
  // A rule that is not an interval. Returns the broken rule ("must be ..."), or "".
  std::function<std::string(const FieldValue&)> check{};
};

struct Field {
  std::string name;
  FieldType type;
  bool optional;
  FieldValue default_value;
  std::string meaning;
  FieldRule rule;
  // `object` points to the struct of the field. `set` takes a value of `type`, or std::monostate if
  // `optional`.
  std::function<FieldValue(const void* object)> get;
  std::function<void(void* object, const FieldValue&)> set;
};

using Fields = std::vector<Field>;
using FieldValues = std::map<std::string, FieldValue>;  // by field name

template <class M>
struct FieldTraits {
  using Value = M;
  static constexpr bool kOptional = false;
};
template <class M>
struct FieldTraits<std::optional<M>> {
  using Value = M;
  static constexpr bool kOptional = true;
};

template <class M>
constexpr FieldType field_type() {
  if constexpr (std::is_same_v<M, bool>) return FieldType::boolean;
  if constexpr (std::is_same_v<M, std::int64_t>) return FieldType::integer;
  if constexpr (std::is_same_v<M, double>) return FieldType::number;
  if constexpr (std::is_same_v<M, std::string> || NamedEnum<M>) return FieldType::text;
  if constexpr (std::is_same_v<M, std::vector<double>>) return FieldType::numbers;
  if constexpr (std::is_same_v<M, std::vector<std::string>>) return FieldType::texts;
}

template <class Value>
FieldValue field_value(const Value& value) {
  if constexpr (NamedEnum<Value>)
    return std::string(name_of(value));
  else
    return value;
}

template <class Struct, class Member>
Field field(std::string name, Member Struct::*member, std::string meaning, FieldRule rule = {}) {
  using Traits = FieldTraits<Member>;
  using Value = typename Traits::Value;
  const FieldValue unset = rule.unset.empty() ? FieldValue() : FieldValue(rule.unset);
  if constexpr (NamedEnum<Value>) {
    if (rule.allowed.empty()) rule.allowed = names_of<Value>();
    if (!rule.unset.empty()) rule.allowed.insert(rule.allowed.begin(), rule.unset);
  }
  const auto get = [member, unset](const void* object) -> FieldValue {
    const Member& value = static_cast<const Struct*>(object)->*member;
    if constexpr (Traits::kOptional) {
      return value ? field_value(*value) : unset;
    } else {
      return field_value(value);
    }
  };
  const auto set = [member, unset, name](void* object, const FieldValue& value) {
    Member& place = static_cast<Struct*>(object)->*member;
    if constexpr (Traits::kOptional) {
      if (value == unset) {
        place.reset();
        return;
      }
    }
    if constexpr (NamedEnum<Value>)
      place = value_named<Value>(name, std::get<std::string>(value));
    else
      place = std::get<Value>(value);
  };
  const Struct defaults{};
  return {std::move(name),
          field_type<Value>(),
          Traits::kOptional && rule.unset.empty(),
          get(&defaults),
          std::move(meaning),
          std::move(rule),
          get,
          set};
}

// Returns a struct with these values. Other fields keep their defaults.
template <class Struct>
Struct from_values(const FieldValues& values) {
  Struct filled{};
  for (const Field& field : Struct::fields())
    if (const auto it = values.find(field.name); it != values.end()) field.set(&filled, it->second);
  return filled;
}

// Returns the values of all fields of a struct.
template <class Struct>
FieldValues to_values(const Struct& filled) {
  FieldValues values;
  for (const Field& field : Struct::fields()) values[field.name] = field.get(&filled);
  return values;
}

// Returns the field with this name, or nullptr.
const Field* find_field(const Fields& fields, std::string_view name);

// Returns "a boolean", "an integer", "a number", "a text", "a list of numbers" or "a list of
// texts".
const char* type_name(FieldType type);

// Returns the rule that `value` (of the field's type) breaks, "must be at least 1", or "".
std::string broken_rule(const Field& field, const FieldValue& value);

// Returns "at least 1", "at least 0 and less than 1", "one of a, b", or "" without limits.
std::string range_text(const Field& field);

// Returns a value as TOML. Numbers read back to the same bits. "" for std::monostate.
std::string to_toml(const FieldValue& value);

}  // namespace rondo
