// The machine, as the kernel reports it: for env.json, `rondo doctor` and defaults that depend on
// it. Nothing here throws. Values that cannot be read are empty or 0.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace rondo {

struct Machine {
  std::string hostname;
  std::string kernel;  // "Linux 6.1.0-18-amd64"
  std::string cpu_model;
  // those of avx2, avx512f, avx512_bf16, amx_bf16 and the like that Rondo's kernels use
  std::vector<std::string> cpu_features;
  int cores_online = 0;
  std::vector<int> affinity;  // cores that this process may run on
  std::int64_t memory_bytes = 0;
  std::int64_t memory_available_bytes = 0;
};

Machine read_machine();

// Returns the name of this machine, as Machine::hostname.
std::string host_name();

// Returns the cores that this process may run on (sched_setaffinity(2)).
std::vector<int> affinity_cores();

// Returns the first value for `key` ("model name", "flags") in the text of /proc/cpuinfo, or "".
std::string cpuinfo_value(const std::string& text, const std::string& key);

// Returns the contents of a small file of /proc or /sys, or "" if it cannot be read.
std::string read_small_file(const char* path);

// Returns "0-3,8" for {0, 1, 2, 3, 8}.
std::string core_list(const std::vector<int>& cores);

}  // namespace rondo
