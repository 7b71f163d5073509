// What happens to a line of JSON lines that is no object with the text: training.on_bad_record.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "support/enum_names.h"

namespace rondo {

enum class OnBadRecord : std::uint8_t { stop, skip };
template <>
inline constexpr auto kNamesOf<OnBadRecord> = std::to_array<std::string_view>({"stop", "skip"});

}  // namespace rondo
