// Writes the latest collectives of a rank that lost a peer or timed out to
// RUN/comm_traces/rank_R.json (format: parallel/groups/comm_record.h). On a GPU the file also has
// LibTorch's record of NCCL as `nccl`.
#pragma once

#include <string>

#include "config/schema/job_config.h"
#include "launch/rendezvous/environment.h"

namespace rondo {

// Returns what to append to `reason`: the collective in progress and the file; empty without
// recorded collectives. Throws nothing; a file that cannot be written is a warning.
std::string write_comm_trace(const JobConfig& config, const RankEnvironment& environment,
                             const std::string& reason) noexcept;

}  // namespace rondo
