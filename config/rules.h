// The rules between keys: each names the keys it is about, spells out the arithmetic and says what to do.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "config/read/assignment.h"
#include "config/read/problems.h"
#include "config/schema/job_config.h"
#include "config/schema/unsupported.h"

namespace rondo {

// Where the values of a config came from.
struct Origins {
  std::map<std::string, Assignment> assigned;  // by key: the assignment that won
  std::set<std::string> broken;  // keys whose value was refused, so that no rule can be asked about them
  std::vector<std::pair<Assignment, const UnsupportedKey*>>
      torchtitans;  // those of its keys that are not ours
};

// `device`: what the graph would run on.
void check_rules(const JobConfig& config, const Origins& origins, TargetDevice device, Problems& problems);

}  // namespace rondo
