#include "prove/ways.h"

namespace rondo {
namespace {

const Ways& ways_of_all() {
  static const Ways list = {
      "training.document_attention=true",
      "compile.memory_policy=default",
      "compile.memory_policy=eager",
      "compile.memory_policy=full",
      "compile.memory_policy=budget training.enable_cpu_offload=true",
      "compile.memory_policy=min_cut",
      "compile.memory_policy=sac_and_offload",
      "compile.disable_passes=transformer_block_bucketing",
      "compile.passes=deduplicate_unshard,auto_bucketing",
      "compile.fsdp_buckets=layers.0+layers.1+norm",
      "compile.enable_fsdp_ag_rs_overlap=true",
      "compile.numerics=rounds",
      "compile.numerics=rounds compile.loss_chunks=3",
      "compile.passes=canonicalize",
      "parallelism.fsdp_reshard_after_forward=always",
      "parallelism.fsdp_reshard_after_forward=never",
      "compile.executor=interpreter",
      "compile.enable=false",
      "compile.enable=false activation_checkpoint.mode=full",
      "compile.enable=false activation_checkpoint.mode=selective",
  };
  return list;
}

}  // namespace

Ways ways_of(const JobConfig& job) {
  Ways ways = ways_of_all();
  if (job.optimizer.name == OptimizerName::muon)
    std::erase_if(ways, [](const std::string& way) { return way.find("enable_cpu_offload") != way.npos; });
  return ways;
}

const Ways& ways_of_context() {
  static const std::string documents = "training.document_attention=true";
  static const Ways list = {documents,
                            documents + " parallelism.context_parallel_load_balancer=documents",
                            "parallelism.context_parallel_load_balancer=none",
                            "compile.memory_policy=full",
                            "compile.numerics=rounds",
                            "compile.enable=false",
                            kHeads + " " + documents,
                            kHeads + " compile.memory_policy=full",
                            kHeads + " compile.memory_policy=full compile.full_recompute_all_to_all=true",
                            kHeads + " compile.enable=false"};
  return list;
}

const Ways& ways_of_pipelines() {
  static const std::string schedule = "parallelism.pipeline_parallel_schedule=";
  static const Ways list = {
      schedule + "GPipe",
      schedule + "Interleaved1F1B",
      schedule + "InterleavedZeroBubble",
      schedule + "ZBVZeroBubble",
      schedule + "DualPipeV",
      "training.document_attention=true",
      "compile.memory_policy=full",
      "compile.numerics=rounds",
      "compile.executor=interpreter",
      "compile.enable=false",
      schedule + "ZBVZeroBubble" + " compile.enable=false",
      schedule + "ZBVZeroBubble" + " " + kSyncOnce,
      schedule + "InterleavedZeroBubble" + " " + kSyncOnce + " compile.enable=false",
  };
  return list;
}

}  // namespace rondo
