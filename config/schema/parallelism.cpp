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
            "replicas of the sharded model (HSDP; DDP where data_parallel_shard_degree is 1); -1: the ranks "
            "that the other degrees leave",
            {.minimum = -1, .maximum = kMaxDegree, .unit = "copies", .check = minus_one_or_positive}),
      field("data_parallel_shard_degree", &P::data_parallel_shard_degree,
            "ranks that shard one copy of the weights (FSDP); -1: the ranks that the other degrees leave",
            {.minimum = -1, .maximum = kMaxDegree, .unit = "ranks", .check = minus_one_or_positive}),
      field("fsdp_reshard_after_forward", &P::fsdp_reshard_after_forward,
            "free gathered weights after the forward and gather them again in the backward; default: all but "
            "the last bucket, and never in a pipeline, which gathers its weights once a step"),
      field("fsdp_gradient_sync", &P::fsdp_gradient_sync,
            "when a step of several microbatches reduce-scatters gradients: after each microbatch, or once "
            "per step, with whole fp32 gradients kept on every rank; equal with one microbatch"),
      field("tensor_parallel_degree", &P::tensor_parallel_degree,
            "ranks that divide each layer and its tokens; -1: the ranks that the other degrees leave",
            {.minimum = -1, .maximum = kMaxDegree, .unit = "ranks", .check = minus_one_or_positive}),
      field("enable_async_tensor_parallel", &P::enable_async_tensor_parallel,
            "run gathers and reduce-scatters of activations in pieces, at the same time as the pieces of "
            "their products, where that is planned to be faster"),
      field("context_parallel_degree", &P::context_parallel_degree,
            "ranks that divide the tokens of each sequence; -1: the ranks that the other degrees leave",
            {.minimum = -1, .maximum = kMaxDegree, .unit = "ranks", .check = minus_one_or_positive}),
      field("context_parallel_rotate_method", &P::context_parallel_rotate_method,
            "how attention sees tokens of other ranks: allgather: gather keys and values of the whole "
            "sequence; alltoall: exchange heads for tokens"),
      field("context_parallel_load_balancer", &P::context_parallel_load_balancer,
            "tokens of a sequence on each rank, for allgather: none: consecutive tokens; headtail: two of 2n "
            "parts, "
            "equal work under a causal mask; documents (torchtitan: ptrr): blocks balanced by the documents "
            "of the batch; alltoall ignores it"),
      field("pipeline_parallel_degree", &P::pipeline_parallel_degree,
            "ranks of a pipeline, which divide the layers into stages; 1: no pipeline, other pipeline keys "
            "have no effect",
            {.minimum = 1, .maximum = pipeline::kMaxStages, .unit = "ranks"}),
      field("pipeline_parallel_schedule", &P::pipeline_parallel_schedule,
            "order of forwards and backwards: GPipe, 1F1B, Interleaved1F1B, InterleavedZeroBubble, "
            "ZBVZeroBubble or DualPipeV; `rondo pipeline` compares them",
            {.check = schedule_of_pipeline}),
      field("pipeline_parallel_schedule_csv", &P::pipeline_parallel_schedule_csv,
            "CSV file with a schedule in torch's format, instead of a named one; empty: none"),
      field("pipeline_parallel_microbatch_size", &P::pipeline_parallel_microbatch_size,
            "sequences per microbatch of a pipeline; a step is one pass of the schedule over all of its "
            "microbatches, including those of gradient accumulation",
            {.minimum = 1, .maximum = 1 << 20, .unit = "sequences"}),
      field("pipeline_parallel_layers_per_stage", &P::pipeline_parallel_layers_per_stage,
            "layers per stage, with embedding and head counted by the next two keys; not set: one stage per "
            "rank, or two if the schedule needs several",
            {.minimum = 1, .maximum = pipeline::kMaxStages, .unit = "layers"}),
      field("pipeline_parallel_first_stage_less_layers", &P::pipeline_parallel_first_stage_less_layers,
            "weight of the embedding, in layers, when layers are divided",
            {.minimum = 0, .maximum = pipeline::kMaxStages, .unit = "layers"}),
      field("pipeline_parallel_last_stage_less_layers", &P::pipeline_parallel_last_stage_less_layers,
            "weight of the head, in layers, when layers are divided",
            {.minimum = 0, .maximum = pipeline::kMaxStages, .unit = "layers"}),
      field("pipeline_parallel_max_pending_weight_gradients",
            &P::pipeline_parallel_max_pending_weight_gradients,
            "maximum microbatches of a stage between the two parts of a split backward; fewer use less "
            "memory and wait longer; 0: do not split; not set: as many as the schedule has",
            {.minimum = 0, .maximum = pipeline::kMaxMicrobatches, .unit = "microbatches"}),
      field("module_fqns_per_model_part", &P::module_fqns_per_model_part,
            "modules of each stage, as [[\"tok_embeddings\", \"layers.0\"], [\"layers.1\", \"norm\", "
            "\"output\"]] or [\"tok_embeddings+layers.0\", \"layers.1+norm+output\"]; empty: divided by the "
            "other keys",
            {.of_lists = true}),
      field("pipeline_parallel_layout", &P::pipeline_parallel_layout,
            "layers of each stage in Megatron's notation: E the embedding, t a layer, L the head, | the end "
            "of a stage, as in Et*3|(t*4|)*6t*3L; empty: divided by the other keys",
            {.check = layout_of_pipeline}),
      field("pipeline_parallel_expert_parallel_overlap", &P::pipeline_parallel_expert_parallel_overlap,
            "run a forward and a backward paired by the schedule (DualPipeV, OVERLAP_F_B of a CSV) as one "
            "graph that overlaps computation and communication; false: run them one after the other"),
      field("overlapped_microbatches", &P::overlapped_microbatches,
            "microbatches into which a rank without a pipeline divides its local batch; the forward of each "
            "runs with the backward of the one before, so that one computes while the other exchanges "
            "tokens; 1: one after the other",
            {.minimum = 1, .maximum = 1 << 20, .unit = "microbatches"}),
      field("expert_parallel_degree", &P::expert_parallel_degree,
            "adjacent ranks of a replica that divide the experts",
            {.minimum = 1, .maximum = kMaxDegree, .unit = "ranks"}),
      field("expert_tensor_parallel_degree", &P::expert_tensor_parallel_degree,
            "ranks that divide each expert: 1, or tensor_parallel_degree",
            {.minimum = 1, .maximum = kMaxDegree, .unit = "ranks"}),
      field("expert_parallel_comm_backend", &P::expert_parallel_comm_backend,
            "how tokens reach experts of other ranks: static: gather all tokens, without a host sync; "
            "standard: all-to-all by exact counts",
            {.later = {"deepep"}}),
      field(
          "expert_parallel_combine", &P::expert_parallel_combine,
          "how ranks add up their parts of what experts give a token, and of its gradient: reducescatter: in "
          "fp32; alltoall: each rounds its part to the dtype of the activations, half of the bytes in "
          "bfloat16"),
      field("expert_capacity_factor", &P::expert_capacity_factor,
            "capacity of a rank's experts in rows, as a multiple of what balanced routers send; 0: room for "
            "all rows",
            {.minimum = 0, .maximum = 1 << 16}),
      field("expert_overflow", &P::expert_overflow,
            "what happens to a step whose rows exceed the capacity: repeat: run it again with enough room if "
            "memory allows; skip: skip it; drop: drop the excess tokens"),
  };
  return list;
}

}  // namespace rondo
