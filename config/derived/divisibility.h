// Divisibility of layers, sequences and experts by the ranks that share them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/schema/job_config.h"

namespace rondo {

// Degrees of tensor and context parallelism.
struct ShareDegrees {
  std::int64_t tensor = 1, context = 1;
};
// A rule between keys that does not hold.
struct BrokenRule {
  std::vector<std::string> keys;  // the first is blamed
  std::string rule;
};
// Returns the rules that ranks break: heads, hidden widths, tokens or experts that they cannot
// divide evenly, also in float8 (float8.h).
std::vector<BrokenRule> broken_shares(const JobConfig& config, const ShareDegrees& degrees);

}  // namespace rondo
