// The [parallelism] section: how ranks are divided (parallel/mesh.h). parallelism.cpp has the
// meaning of each key.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compiler/ir/options.h"
#include "config/schema/choices.h"
#include "parallel/choices.h"
#include "parallel/mesh.h"
#include "support/fields.h"

namespace rondo {

struct Parallelism {
  std::int64_t data_parallel_replicate_degree = 1;  // -1: the ranks that the other degrees leave
  std::int64_t data_parallel_shard_degree = -1;     // -1: the ranks that the other degrees leave
  ReshardAfterForward fsdp_reshard_after_forward = ReshardAfterForward::all_but_last;
  GradientSync fsdp_gradient_sync = GradientSync::microbatch;
  std::int64_t tensor_parallel_degree = 1, expert_parallel_degree = 1, expert_tensor_parallel_degree = 1;
  bool enable_async_tensor_parallel = false;
  std::int64_t context_parallel_degree = 1, pipeline_parallel_degree = 1;
  ContextExchange context_parallel_rotate_method = ContextExchange::all_gather;
  ContextLoadBalancer context_parallel_load_balancer = ContextLoadBalancer::headtail;
  ExpertExchange expert_parallel_comm_backend = ExpertExchange::fixed_size;
  ExpertCombine expert_parallel_combine = ExpertCombine::reduce_scatter;
  double expert_capacity_factor = 0;  // 0: capacity for all rows
  ExpertOverflow expert_overflow = ExpertOverflow::repeat;
  // Pipelines (config/derived/pipeline_layout.h).
  std::string pipeline_parallel_schedule = "1F1B", pipeline_parallel_schedule_csv;
  std::int64_t pipeline_parallel_microbatch_size = 1;
  std::optional<std::int64_t> pipeline_parallel_layers_per_stage,
      pipeline_parallel_max_pending_weight_gradients;
  std::int64_t pipeline_parallel_first_stage_less_layers = 1, pipeline_parallel_last_stage_less_layers = 1;
  std::vector<std::string> module_fqns_per_model_part;  // per stage: "tok_embeddings+layers.0"
  std::string pipeline_parallel_layout;
  bool pipeline_parallel_expert_parallel_overlap = true;  // run paired actions as one graph
  std::int64_t overlapped_microbatches = 1;               // without a pipeline; read config/derived/batch.h
  bool has_pipeline() const { return pipeline_parallel_degree > 1; }
  bool exchanges_heads() const { return context_parallel_rotate_method == ContextExchange::all_to_all; }
  static const Fields& fields();
};

// The degree of each axis, in the order of Axis. efsdp has none: it follows from the others.
struct DegreeOfAxis {
  Axis axis;
  std::int64_t Parallelism::*degree;
};
inline constexpr DegreeOfAxis kDegrees[] = {
    {Axis::pp, &Parallelism::pipeline_parallel_degree},
    {Axis::dp_replicate, &Parallelism::data_parallel_replicate_degree},
    {Axis::dp_shard, &Parallelism::data_parallel_shard_degree},
    {Axis::cp, &Parallelism::context_parallel_degree},
    {Axis::tp, &Parallelism::tensor_parallel_degree},
    {Axis::ep, &Parallelism::expert_parallel_degree},
    {Axis::etp, &Parallelism::expert_tensor_parallel_degree}};
// The first of these, whose degrees are those of the dense axes.
inline constexpr std::span<const DegreeOfAxis> kDegreesOfDense = std::span(kDegrees).first<kDenseAxes>();

}  // namespace rondo
