// The CPU cores that a process may use: those of its affinity, or less by the quota of its cgroup.
#pragma once

#include <string>

namespace rondo {

struct CoreRoom {
  int cores = 1;      // at least 1
  std::string quota;  // "a CPU quota of 1.5 by FILE", if the cgroup allows less than the affinity; else empty
};

// Returns the number of cores of the affinity or, if it is smaller, the quota of the cgroup (v1 or
// v2) rounded down: more busy threads than the quota are throttled. Does not throw.
CoreRoom core_room();

}  // namespace rondo
