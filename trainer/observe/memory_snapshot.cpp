// Collects the data of other parts and writes it in one file. State is counted by distinct names,
// since functions share their inputs. A failed step is written only if memory was exhausted. Errors
// of the snapshot become warnings, so that the original failure reaches the caller. Peaks are reset
// here on all ranks except 0, where the report resets them.
#include "trainer/observe/memory_snapshot.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <new>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>

#include "compiler/execute/cpu_memory.h"
#include "parallel/groups/gpu_records.h"
#include "support/error.h"
#include "support/files/atomic_file.h"
#include "support/log.h"
#include "trainer/observe/memory_json.h"

namespace rondo {
namespace {

bool is_shortage(const std::exception& failure) {
  const auto* ours = dynamic_cast<const Error*>(&failure);
  return (ours != nullptr && ours->code() == ExitCode::resources) ||
         dynamic_cast<const c10::OutOfMemoryError*>(&failure) != nullptr ||
         dynamic_cast<const std::bad_alloc*>(&failure) != nullptr;
}

// Functions share their state, so the bytes of a kind are summed over distinct names.
nlohmann::ordered_json state_json(const std::vector<const CompiledStep*>& functions) {
  std::set<std::string> seen;
  nlohmann::ordered_json bytes;
  for (const CompiledStep* step : functions)
    for (const StepInput& input : step->function().inputs) {
      if (input.kind == ir::InputKind::batch) continue;
      nlohmann::ordered_json& sum = bytes[std::string(ir::input_category_name(input.kind))];
      if (sum.is_null()) sum = 0;
      if (seen.insert(input.name).second) sum = sum.get<std::int64_t>() + ir::storage_bytes(input.type);
    }
  return bytes;
}

nlohmann::ordered_json functions_json(const std::vector<const CompiledStep*>& functions) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const CompiledStep* step : functions) {
    if (step->report().traced_nodes == 0) continue;  // eager: nothing is planned
    nlohmann::ordered_json function = {{"name", step->function().name}};
    function.update(memory_json(step->report().memory));
    function.update(memory_details_json(step->report().memory));
    list.push_back(std::move(function));
  }
  return list;
}

}  // namespace

MemorySnapshot::MemorySnapshot(const Profiling& config, std::filesystem::path folder,
                               std::vector<const CompiledStep*> functions, int rank, int world_size)
    : freq_(config.profile_freq),
      folder_(std::move(folder)),
      functions_(std::move(functions)),
      rank_(rank),
      world_size_(world_size) {}

void MemorySnapshot::step_done(std::int64_t step) const {
  if (step % freq_ == 0) write(fmt::format("iteration_{}", step), step, "every profiling.profile_freq steps");
  if (rank_ != 0) cpu_memory::reset_peak();  // the report does so on rank 0
}

void MemorySnapshot::step_failed(std::int64_t step, const std::exception& failure) const noexcept {
  try {
    if (!is_shortage(failure)) return;
    const std::string message = failure.what();
    write(fmt::format("iteration_{}_exit", step), step, message.substr(0, message.find('\n')));
  } catch (const std::exception& error) {
    log_warning(std::string("the memory snapshot could not be written: ") + error.what());
  }
}

void MemorySnapshot::write(const std::string& iteration, std::int64_t step, const std::string& reason) const {
  const std::filesystem::path file = folder_ / iteration / fmt::format("rank{}_memory.json", rank_);
  nlohmann::ordered_json snapshot = {{"step", step},
                                     {"rank", rank_},
                                     {"world_size", world_size_},
                                     {"reason", reason},
                                     {"process", process_memory_json()},
                                     {"tensors",
                                      {{"live_bytes", cpu_memory::live_bytes()},
                                       {"peak_bytes", cpu_memory::peak_bytes()},
                                       {"allocations", cpu_memory::allocation_count()}}},
                                     {"state", state_json(functions_)},
                                     {"functions", functions_json(functions_)}};
  if (const std::string gpu = gpu_memory_json(); !gpu.empty())
    snapshot["gpu"] = nlohmann::ordered_json::parse(gpu);
  std::error_code problem;
  std::filesystem::create_directories(file.parent_path(), problem);  // replace_file reports the error
  try {
    replace_file(file, snapshot.dump(1) + "\n", FileUse::run);
  } catch (const FileError& error) {
    log_warning(std::string("the memory snapshot could not be written: ") + error.what());
  }
}

}  // namespace rondo
