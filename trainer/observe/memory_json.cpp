#include "trainer/observe/memory_json.h"

#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>

#include "support/machine/machine.h"

namespace rondo {
namespace {

// Returns the bytes of a line like "Pss: 123 kB" in a file of /proc; 0 without the line.
std::int64_t bytes_after(const std::string& text, const char* name) {
  const std::size_t at = text.find(name);
  return at == std::string::npos ? 0 : std::atoll(text.c_str() + at + std::strlen(name)) * 1024;
}

}  // namespace

nlohmann::ordered_json memory_json(const ir::MemoryReport& memory) {
  nlohmann::ordered_json inputs, peak;
  for (std::size_t i = 0; i < ir::kInputKinds; ++i)
    inputs[std::string(ir::input_category_name(static_cast<ir::InputKind>(i)))] = memory.input_bytes[i];
  for (std::size_t i = 0; i < ir::kStorageCategories; ++i)
    peak[std::string(ir::category_name(static_cast<ir::StorageCategory>(i)))] = memory.peak_bytes[i];
  return {{"inputs", inputs},
          {"peak", peak},
          {"live_peak_bytes", memory.live_peak_bytes},
          {"arena_bytes", memory.arena_bytes},
          {"saved_bytes", memory.saved_bytes},
          {"host_bytes", memory.host_bytes},
          {"largest_gather_bytes", memory.largest_gather_bytes},
          {"fragmentation_bytes", memory.fragmentation_bytes()},
          {"total_bytes", memory.total_bytes()}};
}

nlohmann::ordered_json memory_details_json(const ir::MemoryReport& memory) {
  nlohmann::ordered_json largest = nlohmann::ordered_json::array(), saved = nlohmann::ordered_json::array();
  for (const ir::LargeStorage& large : memory.largest)
    largest.push_back({{"bytes", large.storage.bytes},
                       {"category", ir::category_name(large.storage.category)},
                       {"module", large.module},
                       {"op", large.op},
                       {"type", large.type},
                       {"first_node", large.storage.begin},
                       {"last_node", large.storage.end}});
  for (const ir::SavedByModule& module : memory.saved)
    saved.push_back({{"module", module.module}, {"bytes", module.bytes}, {"storages", module.storages}});
  return {{"peak_at", memory.peak_at},
          {"peak_node", memory.peak_node},
          {"largest_at_peak", largest},
          {"saved_by_module", saved}};
}

nlohmann::ordered_json process_memory_json() {
  const std::string shares = read_small_file("/proc/self/smaps_rollup");
  const std::string status = read_small_file("/proc/self/status");
  return {{"rss_bytes", bytes_after(status, "VmRSS:")},
          {"pss_bytes", bytes_after(shares, "\nPss:")},
          {"peak_rss_bytes", bytes_after(status, "VmHWM:")}};
}

}  // namespace rondo
