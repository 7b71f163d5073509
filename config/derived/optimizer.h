// Checks the keys of the optimizer against other keys, and says which parameters Muon updates.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/derived/divisibility.h"
#include "config/schema/job_config.h"

namespace rondo {

// Returns the rules that optimizer.early_step_in_backward breaks; empty if it is off.
// `microbatches`: nullopt if they depend on the number of ranks.
std::vector<BrokenRule> broken_early_step(const JobConfig& config, std::optional<std::int64_t> microbatches);
// Returns the rules that Muon breaks, or that another optimizer with settings for Muon breaks.
std::vector<BrokenRule> broken_muon(const JobConfig& config);
// Returns the names of the parameters that Muon updates; empty if another optimizer does.
std::vector<std::string> matrices_of_muon(const Optimizer& optimizer, const Model& model);

}  // namespace rondo
