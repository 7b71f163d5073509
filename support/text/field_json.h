// A field's value as JSON has it; null where it is not set.
#pragma once

#include <nlohmann/json.hpp>
#include <type_traits>
#include <variant>

#include "support/fields.h"

namespace rondo {

inline nlohmann::json json_of(const FieldValue& value) {
  return std::visit(
      [](const auto& one) -> nlohmann::json {
        if constexpr (std::is_same_v<std::decay_t<decltype(one)>, std::monostate>)
          return nullptr;
        else
          return one;
      },
      value);
}

}  // namespace rondo
