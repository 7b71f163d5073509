// Ways to train that must not change numbers, which proofs cross with layouts. No LibTorch.
#pragma once

#include <string>
#include <vector>

#include "config/schema/job_config.h"

namespace rondo {

// Each element is one way to train: settings separated by blanks.
using Ways = std::vector<std::string>;
inline const std::string kStandardExchange = "parallelism.expert_parallel_comm_backend=standard";
inline const std::string kHeads = "parallelism.context_parallel_rotate_method=alltoall";
inline const std::string kSentTerms = "parallelism.expert_parallel_combine=alltoall";
inline const std::string kBounded = "parallelism.expert_capacity_factor=1.1";
inline const std::string kMuon = "optimizer.name=Muon";
inline const std::string kSyncOnce = "parallelism.fsdp_gradient_sync=step";
inline const std::string kPieces =
    "parallelism.enable_async_tensor_parallel=true compile.tensor_parallel_pieces=2";

// Returns the ways for every layout that go with the job's optimizer.
Ways ways_of(const JobConfig& job);
// Return ways for ranks that divide sequences, and for pipelines.
const Ways& ways_of_context();
const Ways& ways_of_pipelines();

}  // namespace rondo
