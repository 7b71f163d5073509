// How ranks share the work, where there are several ways. The names are those of the configuration. No
// LibTorch.
#pragma once

#include <cstdint>

#include "support/enum_names.h"

namespace rondo {

// How attention reaches the tokens of other ranks (context_parallel.h).
enum class ContextExchange : std::uint8_t { all_gather, all_to_all };
template <>
inline constexpr auto kNamesOf<ContextExchange> = std::to_array<std::string_view>({"allgather", "alltoall"});

// How tokens reach the experts of other ranks (expert_parallel.h).
enum class ExpertExchange : std::uint8_t { fixed_size, exact_counts };
template <>
inline constexpr auto kNamesOf<ExpertExchange> = std::to_array<std::string_view>({"static", "standard"});

// What a step does whose experts get more rows than they have room for (expert_parallel.h).
enum class ExpertOverflow : std::uint8_t {
  repeat,  // change nothing, so that it can be repeated with room for all
  skip,    // change nothing
  drop,    // go on without these rows
};
template <>
inline constexpr auto kNamesOf<ExpertOverflow> = std::to_array<std::string_view>({"repeat", "skip", "drop"});

// How often gradients are summed over the ranks that share one copy of the weights. Replicas always sum
// once a step.
enum class GradientSync : std::uint8_t { microbatch, step };
template <>
inline constexpr auto kNamesOf<GradientSync> = std::to_array<std::string_view>({"microbatch", "step"});

}  // namespace rondo
