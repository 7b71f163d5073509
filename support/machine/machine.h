// What machine this is, read from the kernel: for env.json, `rondo doctor` and defaults that depend on it.
// Nothing here throws; what cannot be read is empty or 0.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace rondo {

struct Machine {
  std::string hostname;
  std::string kernel;  // "Linux 6.1.0-18-amd64"
  std::string cpu_model;
  std::vector<std::string> cpu_features;  // of those that matter here: avx2, avx512f, avx512_bf16, amx_bf16
  int cores_online = 0;
  std::vector<int> affinity;  // cores that this process may run on
  std::int64_t memory_bytes = 0;
  std::int64_t memory_available_bytes = 0;
};

Machine read_machine();

// What is left of /proc/cpuinfo's text: its first value for `key` ("model name", "flags"), or "".
std::string cpuinfo_value(const std::string& text, const std::string& key);

// A small file of /proc or /sys whole, "" where it cannot be read.
std::string read_small_file(const char* path);

// "0-3,8" for {0, 1, 2, 3, 8}.
std::string core_list(const std::vector<int>& cores);

}  // namespace rondo
