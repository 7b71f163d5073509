// What ranks that share layers, sequences or experts cannot divide evenly.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/schema/job_config.h"

namespace rondo {

// Of the ranks that share layers, and sequences.
struct ShareDegrees {
  std::int64_t tensor = 1, context = 1;
};
// A rule between keys that does not hold.
struct BrokenRule {
  std::vector<std::string> keys;  // the one to blame first
  std::string rule;
};
// Heads, hidden widths, tokens or experts that ranks cannot share, each having a whole number of them; and
// what they cannot share in float8 (float8.h).
std::vector<BrokenRule> broken_shares(const JobConfig& config, const ShareDegrees& degrees);

}  // namespace rondo
