// What a compilation may depend on besides the graph: plain data, filled by the trainer. Passes read it and
// nothing else, so the same graph and options give the same result everywhere.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "support/enum_names.h"

namespace rondo {

// Of a pass: what it does to results. Of a compilation: whether passes that round may run.
enum class Numerics : std::uint8_t {
  exact,   // bit for bit the same results
  rounds,  // the same up to rounding
};
template <>
inline constexpr auto kNamesOf<Numerics> = std::to_array<std::string_view>({"exact", "rounds"});

enum class TargetDevice : std::uint8_t { cpu, cuda };
template <>
inline constexpr auto kNamesOf<TargetDevice> = std::to_array<std::string_view>({"cpu", "cuda"});

// What the backward computes again instead of keeping it (analysis/memory_policy.h).
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

// Which parameters are freed after the forward and gathered again for the backward.
enum class ReshardAfterForward : std::uint8_t {
  all_but_last,  // "default": all but those of the last bucket, since the backward begins with them
  always,
  never,
};
template <>
inline constexpr auto kNamesOf<ReshardAfterForward> = std::to_array<std::string_view>({"default", "always",
                                                                                       "never"});

// What runs a step.
enum class ExecutorKind : std::uint8_t { eager, interpreter, replay };
template <>
inline constexpr auto kNamesOf<ExecutorKind> = std::to_array<std::string_view>({"eager", "interpreter",
                                                                                "replay"});

struct CompileOptions {
  // Names of passes, in the pipeline's order; "default" stands for the default list.
  std::vector<std::string> passes = {"default"};
  std::vector<std::string> disable_passes = {};
  Numerics numerics = Numerics::exact;
  TargetDevice device = TargetDevice::cpu;

  MemoryPolicy memory_policy = MemoryPolicy::none;
  double memory_budget = 0.5;    // policy budget: kept bytes, as a share of what `none` keeps
  double memory_budget_gib = 0;  // or in GiB a rank; 0: the share counts
  std::vector<std::string> full_recompute_save_ops = {};  // policy full: "MODULE_PATTERN::aten.mm.default"
  bool is_stage = false;  // others have the rest of the model: a selector may match nothing here
  ReshardAfterForward reshard_after_forward = ReshardAfterForward::all_but_last;
  bool recompute_all_to_all = false;  // all-to-alls may be computed again, as ranks then do them twice

  // Policy sac_and_offload: kept activations go to the host's memory, up to so much a rank, the largest
  // first. They have `defer` more blocks of the forward to get there, and start back `prefetch` blocks of the
  // backward ahead.
  double cpu_offload_budget_gib = 100;
  std::int64_t cpu_offload_defer_n_layers = 1;
  std::int64_t cpu_offload_prefetch_n_layers = 1;

  // Of products, by their keys: what `rondo tune` found (compiler/plan/matmul_products.h). Where they may
  // round.
  std::map<std::string, std::string> matmul_algorithms = {};

  // Gathers of parameters go through a group of their own, named as the one they would take with this behind
  // it; empty: they share it with the reductions.
  std::string gather_group_suffix = {};

  // Sets an option from text, for tools and tests: a list gets one more element. Throws Error(config) for an
  // unknown option and for text that is no value of it.
  void set(std::string_view option, const std::string& value);
};

}  // namespace rondo
