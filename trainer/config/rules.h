// The rules between keys: each names the keys it is about, spells out the arithmetic and says what to do.
#pragma once

#include <map>
#include <set>
#include <string>

#include "trainer/config/assignment.h"
#include "trainer/config/job_config.h"
#include "trainer/config/problems.h"

namespace rondo {

// Where the values of a config came from.
struct Origins {
  std::map<std::string, Assignment> assigned;  // by key: the assignment that won
  std::set<std::string> broken;  // keys whose value was refused, so that no rule can be asked about them
};

void check_rules(const JobConfig& config, const Origins& origins, Problems& problems);

}  // namespace rondo
