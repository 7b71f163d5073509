#include "config/schema/parallelism.h"

#include "config/schema/value_checks.h"
#include "parallel/pipeline/action.h"

namespace rondo {
namespace {

constexpr double kMaxDegree = 1 << 20;

}  // namespace

const Fields& Parallelism::fields() {
  using P = Parallelism;
  static const Fields list = {
      field("data_parallel_replicate_degree", &P::data_parallel_replicate_degree,
            "copies of the whole sharded model; -1: as many as the other degrees leave",
            {.minimum = -1, .maximum = kMaxDegree, .unit = "copies", .check = minus_one_or_positive}),
      field("data_parallel_shard_degree", &P::data_parallel_shard_degree,
            "ranks that share one copy of the weights; -1: the ranks that the other degrees leave",
            {.minimum = -1, .maximum = kMaxDegree, .unit = "ranks", .check = minus_one_or_positive}),
      field("fsdp_reshard_after_forward", &P::fsdp_reshard_after_forward,
            "free gathered weights after the forward and gather them again in the backward; default: but for "
            "the last ones, and never in a pipeline, which gathers its weights once a step"),
      field("fsdp_gradient_sync", &P::fsdp_gradient_sync,
            "how often a step of several microbatches reduce-scatters gradients: each microbatch its own, or "
            "once a step their sums, which every rank then keeps of whole gradients, in fp32; with one "
            "microbatch both are the same"),
      field("tensor_parallel_degree", &P::tensor_parallel_degree,
            "ranks that share each layer and its tokens; -1: the ranks that the other degrees leave",
            {.minimum = -1, .maximum = kMaxDegree, .unit = "ranks", .check = minus_one_or_positive}),
      field("context_parallel_degree", &P::context_parallel_degree,
            "ranks that share the tokens of each sequence; -1: the ranks that the other degrees leave",
            {.minimum = -1, .maximum = kMaxDegree, .unit = "ranks", .check = minus_one_or_positive}),
      field(
          "context_parallel_rotate_method", &P::context_parallel_rotate_method,
          "how attention meets the tokens of other ranks: keys and values of whole sequences on every rank, "
          "or heads exchanged for tokens"),
      field(
          "context_parallel_load_balancer", &P::context_parallel_load_balancer,
          "which tokens of a sequence a rank has, with allgather: neighbours, two parts of 2n for equal work "
          "under a causal mask, or blocks dealt by the work that the batch's documents make of them (ptrr is "
          "torchtitan's name of that); alltoall needs none"),
      field(
          "pipeline_parallel_degree", &P::pipeline_parallel_degree,
          "ranks of a pipeline, which divide the layers into stages; with 1 no other key of pipelines counts",
          {.minimum = 1, .maximum = pipeline::kMostStages, .unit = "ranks"}),
      field("pipeline_parallel_schedule", &P::pipeline_parallel_schedule,
            "order of forwards and backwards: GPipe, 1F1B, Interleaved1F1B, InterleavedZeroBubble, "
            "ZBVZeroBubble or DualPipeV; `rondo pipeline` compares them",
            {.check = schedule_of_pipeline}),
      field("pipeline_parallel_schedule_csv", &P::pipeline_parallel_schedule_csv,
            "file with a schedule in torch's CSV form, in place of one that has a name; empty: none"),
      field("pipeline_parallel_microbatch_size", &P::pipeline_parallel_microbatch_size,
            "sequences of one microbatch of a pipeline; a step is one pass of its schedule over all of its "
            "microbatches, those that accumulate gradients included",
            {.minimum = 1, .maximum = 1 << 20, .unit = "sequences"}),
      field("pipeline_parallel_layers_per_stage", &P::pipeline_parallel_layers_per_stage,
            "layers of a stage, embedding and head counted as the next two keys say; not set: one stage a "
            "rank, "
            "or two where the schedule takes several",
            {.minimum = 1, .maximum = pipeline::kMostStages, .unit = "layers"}),
      field("pipeline_parallel_first_stage_less_layers", &P::pipeline_parallel_first_stage_less_layers,
            "layers that the embedding counts as when layers are divided",
            {.minimum = 0, .maximum = pipeline::kMostStages, .unit = "layers"}),
      field("pipeline_parallel_last_stage_less_layers", &P::pipeline_parallel_last_stage_less_layers,
            "layers that the head counts as when layers are divided",
            {.minimum = 0, .maximum = pipeline::kMostStages, .unit = "layers"}),
      field("pipeline_parallel_max_pending_weight_gradients",
            &P::pipeline_parallel_max_pending_weight_gradients,
            "microbatches of a stage that may be between the two parts of their backward at once, in a "
            "schedule "
            "that divides it: fewer take less memory, and ranks wait more; 0: none is divided; not set: as "
            "many "
            "as the schedule has",
            {.minimum = 0, .maximum = pipeline::kMostMicrobatches, .unit = "microbatches"}),
      field("module_fqns_per_model_part", &P::module_fqns_per_model_part,
            "modules of each stage, as [[\"tok_embeddings\", \"layers.0\"], [\"layers.1\", \"norm\", "
            "\"output\"]] or "
            "[\"tok_embeddings+layers.0\", \"layers.1+norm+output\"]; empty: as the other keys say",
            {.of_lists = true}),
      field("pipeline_parallel_layout", &P::pipeline_parallel_layout,
            "layers of each stage as Megatron writes them: E the embedding, t a layer, L the head, | the end "
            "of a "
            "stage, as in Et*3|(t*4|)*6t*3L; empty: as the other keys say",
            {.check = layout_of_pipeline}),
      field(
          "pipeline_parallel_expert_parallel_overlap", &P::pipeline_parallel_expert_parallel_overlap,
          "a forward and a backward that a schedule puts together (DualPipeV, OVERLAP_F_B of a CSV) are one "
          "graph, in which one computes while the other communicates; otherwise one comes after the other"),
      field("expert_parallel_degree", &P::expert_parallel_degree,
            "ranks that split the experts; of the ranks of a replica, neighbours",
            {.minimum = 1, .maximum = kMaxDegree, .unit = "ranks"}),
      field("expert_tensor_parallel_degree", &P::expert_tensor_parallel_degree,
            "ranks that share each expert: 1, or tensor_parallel_degree",
            {.minimum = 1, .maximum = kMaxDegree, .unit = "ranks"}),
      field("expert_parallel_comm_backend", &P::expert_parallel_comm_backend,
            "how tokens reach experts of other ranks: gathered, without a host sync, or by exact counts",
            {.later = {"deepep"}}),
      field("expert_capacity_factor", &P::expert_capacity_factor,
            "rows that a rank's experts have room for, as a multiple of what balanced routers send; 0: all "
            "that can come",
            {.minimum = 0, .maximum = 1 << 16}),
      field("expert_overflow", &P::expert_overflow,
            "a step whose experts have no room for all rows is repeated with room for them, where that fits "
            "into memory, or skipped, or drops the tokens without room"),
  };
  return list;
}

}  // namespace rondo
