// A limit of a cgroup holds for all groups below it, so ancestors count. A process maps files and
// stacks besides its tensors. `ulimit -v` limits these mappings, too, so they are subtracted there.
// Sources: cgroups(7), getrlimit(2), and the kernel's cgroup-v1/memory.rst and cgroup-v2.rst in
// Documentation/admin-guide.
#include "support/machine/memory_room.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>

#include "support/machine/machine.h"
#include "support/text/numbers.h"

namespace rondo {
namespace {

namespace fs = std::filesystem;

// Version 1 writes a limit of almost 2^63 for no limit, and version 2 "max".
constexpr std::int64_t kNoLimit = std::int64_t{1} << 60;

std::optional<std::int64_t> limit_in(const fs::path& file) {
  std::string text = read_small_file(file.c_str());
  text.erase(text.find_last_not_of(" \n") + 1);
  return number_in<std::int64_t>(text, 0, kNoLimit);
}

// Returns the bytes of address space that the process has mapped.
std::int64_t mapped_bytes() {
  std::istringstream pages(read_small_file("/proc/self/statm"));
  std::int64_t mapped = 0;
  pages >> mapped;
  return mapped * sysconf(_SC_PAGESIZE);
}

}  // namespace

std::optional<CgroupLimit> cgroup_memory_limit(const fs::path& mount, const std::string& own) {
  std::optional<CgroupLimit> least;
  std::istringstream lines(own);
  for (std::string line; std::getline(lines, line);) {  // "5:memory:/a/b" or "0::/a/b"
    const bool v2 = line.starts_with("0::");
    const std::size_t memory = line.find(":memory:");
    if (!v2 && memory == std::string::npos) continue;
    const fs::path root = v2 ? mount : mount / "memory";
    const char* const name = v2 ? "memory.max" : "memory.limit_in_bytes";
    fs::path group = fs::path(line.substr(v2 ? 3 : memory + 8)).relative_path();
    while (true) {
      const fs::path file = root / group / name;
      if (const auto bytes = limit_in(file); bytes && (!least || *bytes < least->bytes))
        least = CgroupLimit{*bytes, file.string()};
      if (group.empty()) break;
      group = group.parent_path();
    }
  }
  return least;
}

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
