#include "support/machine/memory_room.h"

#include <sys/resource.h>

#include <catch2/catch_test_macros.hpp>
#include <fstream>

#include "support/files/temporary_folder.h"
#include "support/machine/cgroup.h"
#include "support/machine/core_room.h"
#include "support/machine/machine.h"

namespace rondo {
namespace {

namespace fs = std::filesystem;
constexpr std::int64_t kMiB = 1 << 20;

struct Groups {
  ~Groups() { fs::remove_all(mount); }
  void write(const std::string& file, const std::string& text) const {
    fs::create_directories((mount / file).parent_path());
    std::ofstream(mount / file) << text << "\n";
  }
  std::int64_t limit(const std::string& own) const {
    const auto least = cgroup_memory_limit(mount, own);
    return least ? least->bytes : -1;
  }
  const fs::path mount = make_temporary_folder("cgroups");
};

TEST_CASE("the memory limit of a cgroup v2 is the least of the group and its ancestors") {
  const Groups groups;
  groups.write("job/memory.max", "629145600");
  groups.write("job/step/memory.max", "max");
  CHECK(groups.limit("0::/job/step\n") == 600 * kMiB);
  groups.write("job/step/memory.max", "1048576");
  CHECK(groups.limit("0::/job/step\n") == kMiB);
  CHECK(groups.limit("0::/other\n") == -1);
}

TEST_CASE("the memory limit of a cgroup v1 is read, and its huge default is no limit") {
  const Groups groups;
  groups.write("memory/memory.limit_in_bytes", "9223372036854771712");
  const std::string own = "12:cpu,cpuacct:/x\n5:memory:/slurm/job_1\n0::/init.scope\n";
  CHECK(groups.limit(own) == -1);
  groups.write("memory/slurm/job_1/memory.limit_in_bytes", "629145600");
  CHECK(groups.limit(own) == 600 * kMiB);
}

TEST_CASE("a container whose own group is not in its mount has the limit of the mount's root") {
  const Groups groups;
  groups.write("memory.max", "629145600");
  CHECK(groups.limit("0::/docker/0123abcd\n") == 600 * kMiB);
}

double quota(const Groups& groups, const std::string& own) {
  const auto least = cgroup_cpu_quota(groups.mount, own);
  return least ? least->cores : -1;
}

TEST_CASE("the CPU quota of a cgroup v2 is the least of the group and its ancestors") {
  const Groups groups;
  groups.write("job/cpu.max", "150000 100000");
  groups.write("job/step/cpu.max", "max 100000");
  CHECK(quota(groups, "0::/job/step\n") == 1.5);
  CHECK(quota(groups, "0::/other\n") == -1);
  groups.write("cpu.max", "50000 100000");
  CHECK(quota(groups, "0::/job/step\n") == 0.5);
}

TEST_CASE("the CPU quota of a cgroup v1 is read, and -1 is none") {
  const Groups groups;
  groups.write("cpu/a/cpu.cfs_period_us", "100000");
  groups.write("cpu/a/cpu.cfs_quota_us", "-1");
  const std::string own = "3:cpuset:/b\n2:cpuacct,cpu:/a\n0::/\n";
  CHECK(quota(groups, own) == -1);
  groups.write("cpu/a/cpu.cfs_quota_us", "300000");
  CHECK(quota(groups, own) == 3);
}

TEST_CASE("a process has at least one core, and no more than its affinity") {
  const CoreRoom room = core_room();
  CHECK(room.cores >= 1);
  CHECK(room.cores <= static_cast<int>(affinity_cores().size()));
}

TEST_CASE("ulimit -v limits a process, less what it has mapped") {
  rlimit before{};
  getrlimit(RLIMIT_AS, &before);
  const rlimit lower{rlim_t{4096} * kMiB, before.rlim_max};
  setrlimit(RLIMIT_AS, &lower);
  const MemoryRoom room = memory_room(1);
  setrlimit(RLIMIT_AS, &before);
  CHECK(room.bytes > 0);
  CHECK(room.bytes < 4096 * kMiB);
}

}  // namespace
}  // namespace rondo
