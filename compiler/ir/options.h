// The options of a compilation: plain data, filled by the trainer. Passes depend on the graph and
// on these options only, so equal graphs and options give equal results everywhere.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "support/enum_names.h"

namespace rondo {

// The effect of a pass on results, or whether a compilation allows passes that round.
enum class Numerics : std::uint8_t {
  exact,   // bit for bit the same results
  rounds,  // the same up to rounding
};
template <>
inline constexpr auto kNamesOf<Numerics> = std::to_array<std::string_view>({"exact", "rounds"});

enum class TargetDevice : std::uint8_t { cpu, cuda };
template <>
inline constexpr auto kNamesOf<TargetDevice> = std::to_array<std::string_view>({"cpu", "cuda"});

// Selects the values that the backward recomputes instead of saving them
// (analysis/memory_policy.h).
enum class MemoryPolicy : std::uint8_t {
  none,
  selective,  // "default"
  eager,
  min_cut,
  budget,
  full,
  sac_and_offload,
};
template <>
inline constexpr auto kNamesOf<MemoryPolicy> = std::to_array<std::string_view>({"none", "default", "eager",
                                                                                "min_cut", "budget", "full",
                                                                                "sac_and_offload"});

// Selects the parameters that are freed after the forward and gathered again for the backward.
enum class ReshardAfterForward : std::uint8_t {
  all_but_last,  // "default": all but those of the last bucket, since the backward begins with them
  always,
  never,
};
template <>
inline constexpr auto kNamesOf<ReshardAfterForward> = std::to_array<std::string_view>({"default", "always",
                                                                                       "never"});

// Selects how a step runs.
enum class ExecutorKind : std::uint8_t { eager, interpreter, replay };
template <>
inline constexpr auto kNamesOf<ExecutorKind> = std::to_array<std::string_view>({"eager", "interpreter",
                                                                                "replay"});

struct CompileOptions {
  // Names of passes, in the pipeline's order; "default" means the default list.
  std::vector<std::string> passes = {"default"};
  std::vector<std::string> disable_passes = {};
  Numerics numerics = Numerics::exact;
  TargetDevice device = TargetDevice::cpu;

  MemoryPolicy memory_policy = MemoryPolicy::none;
  double memory_budget = 0.5;    // policy budget: saved bytes as a share of those of `none`
  double memory_budget_gib = 0;  // policy budget: saved GiB of a rank; 0: memory_budget applies
  // Policy full: ops that it saves, as "MODULE_PATTERN::aten.mm.default".
  std::vector<std::string> full_recompute_save_ops = {};
  bool is_stage = false;  // a part of the model, where a selector may match nothing
  ReshardAfterForward reshard_after_forward = ReshardAfterForward::all_but_last;
  bool recompute_all_to_all = false;  // allows recomputed all-to-alls, which ranks then do twice

  // Policy sac_and_offload: saved activations go to host memory, the largest first, up to the
  // budget of a rank. An offload has `defer` more blocks of the forward to complete. A reload
  // starts `prefetch` blocks of the backward ahead.
  double cpu_offload_budget_gib = 100;
  std::int64_t cpu_offload_defer_n_layers = 1;
  std::int64_t cpu_offload_prefetch_n_layers = 1;

  // The algorithms of products that `rondo tune` measured, by key
  // (compiler/plan/matmul_products.h). Used if passes may round.
  std::map<std::string, std::string> matmul_algorithms = {};

  // Suffix of the name of a separate group for gathers of parameters; empty: they share the group
  // of the reductions.
  std::string gather_group_suffix = {};

  // Pieces of a collective of activations that overlap its products: 1: it stays whole; 0: as many
  // as the cost model chooses.
  std::int64_t tensor_parallel_pieces = 1;
  bool float8_weight_gathers = true;    // quantizes parameters before they are gathered
  bool early_step_in_backward = false;  // updates parameters as soon as their gradients are reduced
  bool state_on_host = false;           // keeps parameters and moments in host memory

  // Sets an option from text, for tools and tests. Appends to a list. Throws Error(config) for an
  // unknown option and for text that is not a value of it.
  void set(std::string_view option, const std::string& value);
};

}  // namespace rondo
