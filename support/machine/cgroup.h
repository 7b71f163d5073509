// Limits of the cgroup of this process (v1 or v2). Nothing here throws.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace rondo {

struct CgroupLimit {
  std::int64_t bytes = 0;
  std::string file;
};
// Returns the smallest memory limit of the cgroup and its ancestors; nullopt without a limit.
// `mount`: where cgroups are mounted, /sys/fs/cgroup. `own`: the text of /proc/self/cgroup. In a
// container without a cgroup namespace, `own` names groups that its mount lacks. The mount's root
// is the container's group then.
std::optional<CgroupLimit> cgroup_memory_limit(const std::filesystem::path& mount, const std::string& own);

struct CpuQuota {
  double cores = 0;  // CPU time per time
  std::string file;
};
// Returns the smallest CPU quota of the cgroup and its ancestors; nullopt without a quota. The
// arguments are those of cgroup_memory_limit.
std::optional<CpuQuota> cgroup_cpu_quota(const std::filesystem::path& mount, const std::string& own);

}  // namespace rondo
