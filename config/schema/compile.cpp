// The fields of sections about the graph of a step: what it recomputes, its passes, its executor.
#include "config/schema/job_config.h"
#include "config/schema/value_checks.h"

namespace rondo {

const Fields& ActivationCheckpoint::fields() {
  static const Fields list = {
      field("mode", &ActivationCheckpoint::mode,
            "what the backward recomputes: none, selective, full or memory_budget; with compile.enable the "
            "same as compile.memory_policy none, default, full and budget; eager runs support none, "
            "selective and full"),
      field("memory_budget", &ActivationCheckpoint::memory_budget,
            "for memory_budget: memory for activations, as a fraction between the memory of mode full (0) "
            "and of mode none (1)",
            {.minimum = 0, .maximum = 1}),
      field("selective_ac_option", &ActivationCheckpoint::selective_ac_option,
            "for selective in eager runs: op recomputes every block but keeps expensive results except every "
            "second matrix product; a number k recomputes every k-th block entirely; recorded graphs use "
            "compile.memory_policy",
            {.check = op_or_number}),
  };
  return list;
}

const Fields& Compile::fields() {
  static const Fields list = {
      field("enable", &Compile::enable, "record the step as one graph and replay it; false: run eagerly"),
      field("executor", &Compile::executor,
            "replay: run a plan prepared once; interpreter: run node by node, as a reference",
            {.allowed = names_of({ExecutorKind::interpreter, ExecutorKind::replay})}),
      field("passes", &Compile::passes, "optional passes over the graph; \"default\" is the default list"),
      field("disable_passes", &Compile::disable_passes, "passes to remove from that list"),
      field("numerics", &Compile::numerics,
            "exact: only passes that keep every bit; rounds: also passes that change rounding"),
      field("memory_policy", &Compile::memory_policy,
            "activations kept for the backward: none: all; default: those expensive to recompute; eager: as "
            "default, without every second matrix product; min_cut: the fewest bytes without expensive "
            "recomputation; budget: as fit into memory_budget_gib; full: none; sac_and_offload: as default, "
            "in host memory; auto: as activation_checkpoint.mode",
            {.unset = "auto"}),
      field(
          "memory_budget_gib", &Compile::memory_budget_gib,
          "for policy budget: activations of the blocks per rank; 0: use activation_checkpoint.memory_budget",
          {.minimum = 0, .maximum = 1e6, .unit = "GiB"}),
      field("full_recompute_save_ops", &Compile::full_recompute_save_ops,
            "for policy full: results to keep nevertheless, as MODULE_PATTERN::aten.OP.OVERLOAD, where * "
            "matches any text",
            {.check = selectors}),
      field("full_recompute_all_to_all", &Compile::full_recompute_all_to_all,
            "for policy full: do not keep results of all-to-all; the backward repeats the exchange"),
      field("fsdp_buckets", &Compile::fsdp_buckets,
            "parameters gathered and reduced together, one bucket per entry: names of parameters or modules "
            "separated by | or +, where * matches any text; layers.[0-5] makes six buckets; other parameters "
            "stay in the model's buckets",
            {.check = buckets}),
      field("loss_chunks", &Compile::loss_chunks,
            "for numerics \"rounds\": number of chunks of rows in which logits and loss are computed; 0: the "
            "fewest that keep a chunk's logits below 1 GiB; -1: the loss is whole",
            {.minimum = -1, .maximum = 1e6, .unit = "chunks"}),
      field("attention", &Compile::attention,
            "attention kernel on GPUs; auto: the first of cudnn, flash, efficient and direct that supports "
            "the shapes",
            {.unset = "auto"}),
      field("matmul_algorithms", &Compile::matmul_algorithms,
            "for numerics \"rounds\" on GPUs: file written by `rondo tune` with a cuBLASLt algorithm for "
            "each matrix product; empty: LibTorch's choice"),
      field("enable_fsdp_ag_rs_overlap", &Compile::enable_fsdp_ag_rs_overlap,
            "run all-gathers in a process group of their own, so they do not wait behind reduce-scatters"),
      field(
          "tensor_parallel_pieces", &Compile::tensor_parallel_pieces,
          "for parallelism.enable_async_tensor_parallel: pieces of each collective, from 2; 0: for each the "
          "number that is planned to be the fastest",
          {.minimum = 0, .maximum = 64, .unit = "pieces"}),
      field("cpu_offload_budget_gb", &Compile::cpu_offload_budget_gb,
            "for policy sac_and_offload: host memory for activations per rank",
            {.minimum = 0, .maximum = 1e6, .unit = "GiB"}),
      field("cpu_offload_defer_n_layers", &Compile::cpu_offload_defer_n_layers,
            "additional blocks of the forward in which an offload to the host may finish",
            {.minimum = 0, .maximum = 1e6, .unit = "layers"}),
      field("cpu_offload_prefetch_n_layers", &Compile::cpu_offload_prefetch_n_layers,
            "blocks of the backward by which a copy back to the device is started early",
            {.minimum = 0, .maximum = 1e6, .unit = "layers"}),
      field("dump", &Compile::dump,
            "graphs written to the run folder: all: after each pass; final: after the last; none"),
      field("dump_ranks", &Compile::dump_ranks, "ranks that write graphs: first or all, to graph/rank_R"),
  };
  return list;
}

const Fields& EpOverlap::fields() {
  static const Fields list = {
      field("enabled", &EpOverlap::enabled,
            "torchtitan's name for parallelism.overlapped_microbatches = 2, unless that key has more"),
  };
  return list;
}

}  // namespace rondo
