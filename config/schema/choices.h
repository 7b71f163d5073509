// The values of keys that name one of several, where no room below has an enum of them. Their names are what
// a file has.
#pragma once

#include <cstdint>

#include "support/enum_names.h"

namespace rondo {

// What the backward of an eager run computes again; of a graph compile.memory_policy says it.
enum class ActivationCheckpointMode : std::uint8_t { none, selective, full, memory_budget };
template <>
inline constexpr auto kNamesOf<ActivationCheckpointMode> =
    std::to_array<std::string_view>({"none", "selective", "full", "memory_budget"});

}  // namespace rondo
