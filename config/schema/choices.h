// Enums of the configuration that no other room declares. Their names are the values in a file.
#pragma once

#include <cstdint>

#include "support/enum_names.h"

namespace rondo {

// Dtypes of weights, computation and optimizer state.
enum class Precision : std::uint8_t { float32, bfloat16, float16, float64 };
template <>
inline constexpr auto kNamesOf<Precision> = std::to_array<std::string_view>({"float32", "bfloat16", "float16",
                                                                             "float64"});

enum class OptimizerName : std::uint8_t { adamw, adam, muon };
template <>
inline constexpr auto kNamesOf<OptimizerName> = std::to_array<std::string_view>({"AdamW", "Adam", "Muon"});

// torch.optim.Muon's adjustments of the learning rate by the shape of a matrix.
enum class MuonAdjustLr : std::uint8_t { match_rms_adamw, original };
template <>
inline constexpr auto kNamesOf<MuonAdjustLr> = std::to_array<std::string_view>({"match_rms_adamw",
                                                                                "original"});

// torch's implementations of the update. fused_opt_states_bf16 keeps moments in bf16; the others
// are equal here.
enum class OptimizerImplementation : std::uint8_t { fused, foreach, for_loop, fused_opt_states_bf16 };
template <>
inline constexpr auto kNamesOf<OptimizerImplementation> =
    std::to_array<std::string_view>({"fused", "foreach", "for-loop", "fused_opt_states_bf16"});

// Rounding of parameters and moments to bf16 in the update.
enum class Bf16Rounding : std::uint8_t { stochastic, nearest };
template <>
inline constexpr auto kNamesOf<Bf16Rounding> = std::to_array<std::string_view>({"stochastic", "nearest"});

// Shape of the learning rate's decay.
enum class DecayType : std::uint8_t { linear, sqrt, cosine };
template <>
inline constexpr auto kNamesOf<DecayType> = std::to_array<std::string_view>({"linear", "sqrt", "cosine"});

// What the backward recomputes. Graphs follow it unless compile.memory_policy is set.
enum class ActivationCheckpointMode : std::uint8_t { none, selective, full, memory_budget };
template <>
inline constexpr auto kNamesOf<ActivationCheckpointMode> =
    std::to_array<std::string_view>({"none", "selective", "full", "memory_budget"});

// Tokens of a sequence on each rank. ptrr is torchtitan's name of `documents`.
enum class ContextLoadBalancer : std::uint8_t { headtail, documents, ptrr, none };
template <>
inline constexpr auto kNamesOf<ContextLoadBalancer> =
    std::to_array<std::string_view>({"headtail", "documents", "ptrr", "none"});

// Graphs that are written: after each pass, after the last one, or none.
enum class GraphDump : std::uint8_t { all, final, none };
template <>
inline constexpr auto kNamesOf<GraphDump> = std::to_array<std::string_view>({"all", "final", "none"});

// Ranks that write graphs.
enum class DumpRanks : std::uint8_t { first, all };
template <>
inline constexpr auto kNamesOf<DumpRanks> = std::to_array<std::string_view>({"first", "all"});

// Whether training waits for the disk, or for a copy in memory.
enum class AsyncMode : std::uint8_t { disabled, async };
template <>
inline constexpr auto kNamesOf<AsyncMode> = std::to_array<std::string_view>({"disabled", "async"});

enum class Verbosity : std::uint8_t { quiet, normal, detailed };
template <>
inline constexpr auto kNamesOf<Verbosity> = std::to_array<std::string_view>({"quiet", "normal", "detailed"});

}  // namespace rondo
