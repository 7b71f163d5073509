// Ways in which ranks share work. The names are those of the configuration. No LibTorch.
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

// Selects how ranks add up their partial sums over a token's experts (expert_parallel.h).
enum class ExpertCombine : std::uint8_t { reduce_scatter, all_to_all };
template <>
inline constexpr auto kNamesOf<ExpertCombine> = std::to_array<std::string_view>({"reducescatter",
                                                                                 "alltoall"});

// What a step does when experts receive more tokens than they have capacity for
// (expert_parallel.h).
enum class ExpertOverflow : std::uint8_t {
  repeat,  // change nothing, so that the step can be repeated with capacity for all tokens
  skip,    // change nothing
  drop,    // train without these tokens
};
template <>
inline constexpr auto kNamesOf<ExpertOverflow> = std::to_array<std::string_view>({"repeat", "skip", "drop"});

// How often gradients are reduced over the ranks that share one copy of the weights. Replicas
// always reduce once a step.
enum class GradientSync : std::uint8_t { microbatch, step };
template <>
inline constexpr auto kNamesOf<GradientSync> = std::to_array<std::string_view>({"microbatch", "step"});

}  // namespace rondo
