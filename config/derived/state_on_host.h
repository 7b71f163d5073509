// Checks training.enable_cpu_offload against other keys.
#pragma once

#include <vector>

#include "config/derived/divisibility.h"
#include "config/schema/job_config.h"

namespace rondo {

// Returns the rules that the key breaks; empty if it is off.
std::vector<BrokenRule> broken_state_on_host(const JobConfig& config);

}  // namespace rondo
