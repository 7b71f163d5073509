// What a compilation may depend on besides the graph: plain data, filled by the trainer. Passes read it and
// nothing else, so the same graph and options give the same result everywhere.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace rondo {

struct CompileOptions {
  // Names of passes; "default" stands for the default list. Their order says nothing: the pipeline's order is
  // fixed.
  std::vector<std::string> passes = {"default"};
  std::vector<std::string> disable_passes = {};
  std::string numerics = "exact";  // "exact" or "rounds": whether passes that change rounding may run
  std::string device = "cpu";      // "cpu" or "cuda"

  // What the backward computes again instead of keeping it: none, default, full, eager, min_cut, budget or
  // sac_and_offload (passes/recompute.cpp).
  std::string memory_policy = "none";
  double memory_budget = 0.5;    // policy budget: kept bytes, as a share of what `none` keeps
  double memory_budget_gib = 0;  // or in GiB a rank; 0: the share counts
  std::vector<std::string> full_recompute_save_ops = {};  // policy full: "MODULE_PATTERN::aten.mm.default"
  // Whether gathered parameters are freed after the forward and gathered again for the backward: "always",
  // "never", or "default", which keeps those of the last bucket, since the backward begins with them.
  std::string reshard_after_forward = "default";

  // Policy sac_and_offload: kept activations go to the host's memory, up to so much a rank, the largest first. They
  // have `defer` more blocks of the forward to get there, and start back `prefetch` blocks of the backward ahead.
  double cpu_offload_budget_gib = 100;
  std::int64_t cpu_offload_defer_n_layers = 1;
  std::int64_t cpu_offload_prefetch_n_layers = 1;

  // The head's product and the loss, where they may round, take the rows of a batch in so many chunks
  // (passes/chunk_loss.cpp). At least 1.
  std::int64_t loss_chunks = 8;

  // Gathers of parameters go through a group of their own, named as the one they would take with this behind it;
  // empty: they share it with the reductions.
  std::string gather_group_suffix = {};
};

}  // namespace rondo
