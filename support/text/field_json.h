// Converts a field's value to JSON; null if it is not set.
#pragma once

#include <nlohmann/json.hpp>
#include <type_traits>
#include <variant>

#include "support/fields.h"

namespace rondo {

inline nlohmann::json json_of(const FieldValue& value) {
  return std::visit(
      [](const auto& held) -> nlohmann::json {
        if constexpr (std::is_same_v<std::decay_t<decltype(held)>, std::monostate>)
          return nullptr;
        else
          return held;
      },
      value);
}

}  // namespace rondo
