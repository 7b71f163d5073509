// All values come from system calls and text files of the kernel. So this works without any library
// and on a broken installation. Keys are compared whole up to the colon, because one key can be a
// prefix of another. x86 calls its list of features "flags" and ARM "Features"; both are tried. A
// failure leaves the value empty.
#include "support/machine/machine.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <sstream>

namespace rondo {
namespace {

constexpr std::array kRelevantFeatures = {"sse4_2",   "avx2",     "fma",   "avx512f", "avx512_bf16",
                                          "amx_bf16", "amx_tile", "asimd", "sve",     "bf16"};

std::vector<std::string> features(const std::string& flags) {
  std::vector<std::string> relevant;
  const std::string padded = fmt::format(" {} ", flags);
  for (const char* feature : kRelevantFeatures)
    if (padded.find(fmt::format(" {} ", feature)) != std::string::npos) relevant.emplace_back(feature);
  return relevant;
}

std::int64_t meminfo_bytes(const std::string& text, const std::string& key) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind(fmt::format("{}:", key), 0) != 0) continue;
    std::istringstream value(line.substr(key.size() + 1));
    std::int64_t kib = 0;
    value >> kib;
    return kib * 1024;
  }
  return 0;
}

}  // namespace

std::vector<int> affinity_cores() {
  std::vector<int> cores;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  return cores;
}

std::string read_small_file(const char* path) {
  std::ifstream file(path);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  return text.str();
}

std::string cpuinfo_value(const std::string& text, const std::string& key) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::size_t name_end = line.find_last_not_of(" \t", colon == 0 ? 0 : colon - 1);
    if (line.substr(0, name_end + 1) != key) continue;
    const std::size_t value = line.find_first_not_of(" \t", colon + 1);
    return value == std::string::npos ? "" : line.substr(value);
  }
  return "";
}

std::string core_list(const std::vector<int>& cores) {
  std::string text;
  for (std::size_t first = 0; first < cores.size();) {
    std::size_t last = first;
    while (last + 1 < cores.size() && cores[last + 1] == cores[last] + 1) ++last;
    if (!text.empty()) text += ",";
    text += std::to_string(cores[first]);
    if (last > first) text += fmt::format("-{}", cores[last]);
    first = last + 1;
  }
  return text;
}

std::string host_name() {
  utsname names{};
  return uname(&names) == 0 ? names.nodename : "";
}

Machine read_machine() {
  Machine machine;
  machine.hostname = host_name();
  if (utsname names{}; uname(&names) == 0) machine.kernel = std::string(names.sysname) + " " + names.release;
  const std::string cpuinfo = read_small_file("/proc/cpuinfo");
  machine.cpu_model = cpuinfo_value(cpuinfo, "model name");
  const std::string x86_flags = cpuinfo_value(cpuinfo, "flags");
  machine.cpu_features = features(x86_flags.empty() ? cpuinfo_value(cpuinfo, "Features") : x86_flags);
  machine.cores_online = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  machine.affinity = affinity_cores();
  const std::string meminfo = read_small_file("/proc/meminfo");
  machine.memory_bytes = meminfo_bytes(meminfo, "MemTotal");
  machine.memory_available_bytes = meminfo_bytes(meminfo, "MemAvailable");
  return machine;
}

}  // namespace rondo
