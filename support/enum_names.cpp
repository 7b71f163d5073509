#include "support/enum_names.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "support/error.h"

namespace rondo {

std::size_t index_of_name(std::span<const std::string_view> names, std::string_view key,
                          std::string_view name) {
  const auto match = std::find(names.begin(), names.end(), name);
  if (match == names.end())
    throw Error(ExitCode::config,
                fmt::format("{} = \"{}\": must be one of {}", key, name, fmt::join(names, ", ")));
  return static_cast<std::size_t>(match - names.begin());
}

}  // namespace rondo
