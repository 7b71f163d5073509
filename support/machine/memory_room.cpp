// A process maps files and stacks besides its tensors. `ulimit -v` limits these mappings, too, so
// they are subtracted there (getrlimit(2)).
#include "support/machine/memory_room.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>

#include "support/machine/cgroup.h"
#include "support/machine/machine.h"

namespace rondo {
namespace {

// Returns the bytes of address space that the process has mapped.
std::int64_t mapped_bytes() {
  std::istringstream pages(read_small_file("/proc/self/statm"));
  std::int64_t mapped = 0;
  pages >> mapped;
  return mapped * sysconf(_SC_PAGESIZE);
}

}  // namespace

MemoryRoom memory_room(int processes) {
  MemoryRoom room{read_machine().memory_bytes / processes, "in its machine"};
  const auto lower = [&](std::int64_t bytes, std::string where) {
    if (room.bytes == 0 || bytes < room.bytes) room = {bytes, std::move(where)};
  };
  if (const auto limit = cgroup_memory_limit("/sys/fs/cgroup", read_small_file("/proc/self/cgroup")))
    lower(limit->bytes / processes, fmt::format("in its cgroup ({})", limit->file));
  rlimit address_space{};
  if (getrlimit(RLIMIT_AS, &address_space) == 0 && address_space.rlim_cur != RLIM_INFINITY)
    lower(std::max<std::int64_t>(1, static_cast<std::int64_t>(address_space.rlim_cur) - mapped_bytes()),
          "left by ulimit -v");
  return room;
}

}  // namespace rondo
