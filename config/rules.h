// Rules between keys. Each problem names the keys, shows the arithmetic and gives the next action.
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

// The origins of a configuration's values.
struct Origins {
  std::map<std::string, Assignment> assigned;  // by key: the assignment that won
  std::set<std::string> broken;                // keys with a refused value; their rules are skipped
  std::vector<std::pair<Assignment, const UnsupportedKey*>>
      torchtitans;  // torchtitan's keys that Rondo does not have

  // Adds a problem of an assignment, and marks its key as broken. `key`: the key whose value is
  // broken, if any.
  void refuse(const Assignment& assignment, const std::string& rule, Problems& problems,
              const std::string& key = "") {
    problems.add(assignment.place, assignment.shown + ": " + rule, key);
    broken.insert(assignment.key);
  }
};

// Adds broken rules to `problems`. `device`: the device of the graph.
void check_rules(const JobConfig& config, const Origins& origins, TargetDevice device, Problems& problems);

}  // namespace rondo
