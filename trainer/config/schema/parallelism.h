// [parallelism] of a configuration: how the ranks are divided (parallel/mesh.h). What each key means stands
// in parallelism.cpp.
#pragma once

#include <cstdint>
#include <string>

#include "support/fields.h"

namespace rondo {

struct Parallelism {
  std::int64_t data_parallel_replicate_degree = 1;     // -1: the copies that the other degrees leave
  std::int64_t data_parallel_shard_degree = -1;        // -1: the ranks that the other degrees leave
  std::string fsdp_reshard_after_forward = "default";  // default | always | never
  std::int64_t tensor_parallel_degree = 1, expert_parallel_degree = 1, expert_tensor_parallel_degree = 1;
  std::int64_t context_parallel_degree = 1, pipeline_parallel_degree = 1;
  std::string context_parallel_rotate_method = "allgather";  // allgather | alltoall
  std::string context_parallel_load_balancer = "headtail";   // headtail | documents | ptrr | none
  std::string expert_parallel_comm_backend = "static";       // static | standard
  double expert_capacity_factor = 0;                         // 0: room for all rows that can come
  std::string expert_overflow = "repeat";                    // repeat | skip | drop
  bool exchanges_heads() const { return context_parallel_rotate_method == "alltoall"; }
  static const Fields& fields();
};

}  // namespace rondo
