#include "parallel/groups/gpu_records.h"

#include <c10/cuda/CUDACachingAllocator.h>

#include <atomic>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

namespace rondo {
namespace {

constexpr const char* kVariable = "TORCH_FR_BUFFER_SIZE";
std::atomic<bool> sized{false};

nlohmann::ordered_json json_of(const c10::CachingDeviceAllocator::BlockInfo& block) {
  return {{"bytes", block.size},
          {"requested_bytes", block.requested_size},
          {"state", block.allocated ? "allocated"
                    : block.active  ? "pending free"
                                    : "free"}};
}

nlohmann::ordered_json json_of(const c10::CachingDeviceAllocator::SegmentInfo& segment) {
  nlohmann::ordered_json blocks = nlohmann::ordered_json::array();
  for (const auto& block : segment.blocks) blocks.push_back(json_of(block));
  const auto& pool = segment.owner_private_pool_id;
  return {{"device", static_cast<int>(segment.device)},
          {"address", segment.address},
          {"total_bytes", segment.total_size},
          {"allocated_bytes", segment.allocated_size},
          {"active_bytes", segment.active_size},
          {"stream", reinterpret_cast<std::uintptr_t>(segment.stream)},
          {"private_pool", pool.first != 0 || pool.second != 0},
          {"expandable", segment.is_expandable},
          {"blocks", blocks}};
}

}  // namespace

void size_nccl_record(std::size_t entries) {
  sized = true;
  const char* setting = std::getenv(kVariable);
  if (setting != nullptr && std::atoll(setting) > 0) return;
  setenv(kVariable, std::to_string(entries).c_str(), /*overwrite=*/1);
}

std::string nccl_record_json() {
  if (!sized) return "";
  return c10d::dump_nccl_trace_json(/*includeCollectives=*/true, /*onlyActive=*/false);
}

std::string gpu_memory_json() {
  auto* allocator = c10::cuda::CUDACachingAllocator::get();
  if (allocator == nullptr || !allocator->initialized()) return "";
  nlohmann::ordered_json segments = nlohmann::ordered_json::array();
  for (const auto& segment : c10::cuda::CUDACachingAllocator::snapshot().segments)
    segments.push_back(json_of(segment));
  return nlohmann::ordered_json{{"segments", segments}}.dump();
}

}  // namespace rondo
