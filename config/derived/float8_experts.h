// Products of experts in float8 (config/derived/float8.h).
#pragma once

#include "config/derived/float8_modules.h"

namespace rondo {

// Returns the weights of experts that are named and have sizes of the granule.
std::vector<ParameterRule> float8_experts(const JobConfig& config);

// Adds the rules that float8 of experts breaks.
void check_experts(const JobConfig& config, BrokenRules& broken);

}  // namespace rondo
