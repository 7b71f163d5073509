// Parses a number from untrusted text. The whole text must be the number, and within the range.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>

namespace rondo {

template <typename Number>
std::optional<Number> number_in(std::string_view text, Number lowest, Number highest) {
  Number value{};
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (!(value >= lowest && value <= highest)) return std::nullopt;
  return value;
}

}  // namespace rondo
