// What a rank writes down when it lost another one, or waited too long: its latest collectives, in
// RUN/comm_traces/rank_R.json (parallel/groups/comm_record.h says what is in it). On a GPU LibTorch's record
// of NCCL stands in it, too, as `nccl`.
#pragma once

#include <string>

#include "config/schema/job_config.h"
#include "launch/rendezvous/environment.h"

namespace rondo {

// Returns what to add to `reason`: the collective that was under way, and the file; empty where nothing was
// recorded. Throws nothing; a file that cannot be written is a warning.
std::string write_comm_trace(const JobConfig& config, const RankEnvironment& environment,
                             const std::string& reason) noexcept;

}  // namespace rondo
