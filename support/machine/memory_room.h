// The memory that a process may have: the machine's, or less by a limit of the kernel.
#pragma once

#include <cstdint>
#include <string>

namespace rondo {

struct MemoryRoom {
  std::int64_t bytes = 0;  // 0: unknown
  std::string where;       // "in its machine", "in its cgroup (FILE)", "left by ulimit -v"
};

// Returns the smallest of the machine's memory, the limit of the cgroup (v1 or v2), both divided by
// `processes` that share them, and what `ulimit -v` leaves this process. Does not throw.
MemoryRoom memory_room(int processes);

}  // namespace rondo
