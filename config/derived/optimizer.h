// Checks the keys of the optimizer against other keys.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "config/derived/divisibility.h"
#include "config/schema/job_config.h"

namespace rondo {

// Returns the rules that optimizer.early_step_in_backward breaks; empty if it is off.
// `microbatches`: nullopt if they depend on the number of ranks.
std::vector<BrokenRule> broken_early_step(const JobConfig& config, std::optional<std::int64_t> microbatches);
// Returns the rules that Muon breaks, or that another optimizer with settings for Muon breaks.
std::vector<BrokenRule> broken_muon(const JobConfig& config);

}  // namespace rondo
