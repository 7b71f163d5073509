#include "support/machine/core_room.h"

#include <fmt/format.h>

#include <algorithm>

#include "support/machine/cgroup.h"
#include "support/machine/machine.h"

namespace rondo {

CoreRoom core_room() {
  CoreRoom room{std::max(1, static_cast<int>(affinity_cores().size())), ""};
  const auto quota = cgroup_cpu_quota("/sys/fs/cgroup", read_small_file("/proc/self/cgroup"));
  if (quota && quota->cores < room.cores)
    room = {std::max(1, static_cast<int>(quota->cores)),
            fmt::format("a CPU quota of {:g} by {}", quota->cores, quota->file)};
  return room;
}

}  // namespace rondo
