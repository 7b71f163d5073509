// A limit of a cgroup holds for all groups below it, so ancestors count. Sources: cgroups(7), and
// the kernel's cgroup-v1/memory.rst, scheduler/sched-bwc.rst and cgroup-v2.rst.
#include "support/machine/cgroup.h"

#include <fmt/format.h>

#include <sstream>

#include "support/machine/machine.h"
#include "support/text/numbers.h"

namespace rondo {
namespace {

namespace fs = std::filesystem;

// Version 1 writes a limit of almost 2^63 for no limit, and version 2 "max".
constexpr std::int64_t kNoLimit = std::int64_t{1} << 60;

std::optional<std::int64_t> number_of(const std::string& word, std::int64_t lowest) {
  return number_in<std::int64_t>(word, lowest, kNoLimit);
}

// Calls `visit` with the folder of the process's cgroup for `controller` and with each ancestor.
// `visit` also receives whether the folder is one of version 2.
template <class Visit>
void for_each_group(const fs::path& mount, const std::string& own, const std::string& controller,
                    Visit visit) {
  std::istringstream lines(own);
  for (std::string line; std::getline(lines, line);) {  // "5:cpu,cpuacct:/a/b" or "0::/a/b"
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const bool v2 = line.starts_with("0::");
    const std::string controllers = fmt::format(",{},", line.substr(first + 1, second - first - 1));
    if (!v2 && controllers.find(fmt::format(",{},", controller)) == std::string::npos) continue;
    const fs::path root = v2 ? mount : mount / controller;
    fs::path group = fs::path(line.substr(second + 1)).relative_path();
    while (true) {
      visit(root / group, v2);
      if (group.empty()) break;
      group = group.parent_path();
    }
  }
}

std::string first_word(const fs::path& file) {
  std::istringstream words(read_small_file(file.c_str()));
  std::string word;
  words >> word;
  return word;
}

}  // namespace

std::optional<CgroupLimit> cgroup_memory_limit(const fs::path& mount, const std::string& own) {
  std::optional<CgroupLimit> least;
  for_each_group(mount, own, "memory", [&](const fs::path& group, bool v2) {
    const fs::path file = group / (v2 ? "memory.max" : "memory.limit_in_bytes");
    if (const auto bytes = number_of(first_word(file), 0); bytes && (!least || *bytes < least->bytes))
      least = CgroupLimit{*bytes, file.string()};
  });
  return least;
}

std::optional<CpuQuota> cgroup_cpu_quota(const fs::path& mount, const std::string& own) {
  std::optional<CpuQuota> least;
  for_each_group(mount, own, "cpu", [&](const fs::path& group, bool v2) {
    const fs::path file = group / (v2 ? "cpu.max" : "cpu.cfs_quota_us");
    std::istringstream words(read_small_file(file.c_str()));  // v2: "QUOTA PERIOD"
    std::string quota_text, period_text;
    words >> quota_text >> period_text;
    if (!v2) period_text = first_word(group / "cpu.cfs_period_us");
    const auto quota = number_of(quota_text, 1), period = number_of(period_text, 1);
    if (!quota || !period) return;
    const double cores = static_cast<double>(*quota) / static_cast<double>(*period);
    if (!least || cores < least->cores) least = CpuQuota{cores, file.string()};
  });
  return least;
}

}  // namespace rondo
