// The memory that a process may have: the machine's, or less by a limit of the kernel.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace rondo {

struct MemoryRoom {
  std::int64_t bytes = 0;  // 0: unknown
  std::string where;       // "in its machine", "in its cgroup (FILE)", "left by ulimit -v"
};

// Returns the smallest of the machine's memory, the limit of the cgroup (v1 or v2), both divided by
// `processes` that share them, and what `ulimit -v` leaves this process. Does not throw.
MemoryRoom memory_room(int processes);

struct CgroupLimit {
  std::int64_t bytes = 0;
  std::string file;
};
// Returns the smallest memory limit of the cgroup and its ancestors; nullopt without a limit.
// `mount`: where cgroups are mounted, /sys/fs/cgroup. `own`: the text of /proc/self/cgroup. In a
// container without a cgroup namespace, `own` names groups that its mount lacks. The mount's root
// is the container's group then.
std::optional<CgroupLimit> cgroup_memory_limit(const std::filesystem::path& mount, const std::string& own);

}  // namespace rondo
