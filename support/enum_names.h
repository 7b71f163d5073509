// The names of an enum's values, in one table for configuration files, flags, help, messages and
// tests. The table is a specialization after the enum, in the order of the enumerators, which count
// from 0:
//
//   enum class Numerics : std::uint8_t { exact, rounds };
//   template <>
//   inline constexpr auto kNamesOf<Numerics> = std::to_array<std::string_view>({"exact",
//   "rounds"});
#pragma once

#include <array>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace rondo {

template <class Enum>
inline constexpr std::array<std::string_view, 0> kNamesOf{};

template <class Enum>
concept NamedEnum = std::is_enum_v<Enum> && !kNamesOf<Enum>.empty();

template <NamedEnum Enum>
constexpr std::string_view name_of(Enum value) {
  return kNamesOf<Enum>[static_cast<std::size_t>(value)];
}

// Returns names for a field's allowed values: all, or the given ones in order.
template <NamedEnum Enum>
std::vector<std::string> names_of() {
  return {kNamesOf<Enum>.begin(), kNamesOf<Enum>.end()};
}
template <NamedEnum Enum>
std::vector<std::string> names_of(std::initializer_list<Enum> values) {
  std::vector<std::string> names;
  for (const Enum value : values) names.emplace_back(name_of(value));
  return names;
}

// Returns the index of `name`. Throws Error(config) that names `key` if there is none.
std::size_t index_of_name(std::span<const std::string_view> names, std::string_view key,
                          std::string_view name);
template <NamedEnum Enum>
Enum value_named(std::string_view key, std::string_view name) {
  return static_cast<Enum>(index_of_name(kNamesOf<Enum>, key, name));
}

}  // namespace rondo
