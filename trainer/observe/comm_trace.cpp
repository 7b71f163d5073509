#include "trainer/observe/comm_trace.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "parallel/groups/comm_record.h"
#include "parallel/groups/gpu_records.h"
#include "support/files/atomic_file.h"
#include "support/log.h"

namespace rondo {
namespace {

std::string trace_text(const RankEnvironment& environment, const std::string& reason) {
  const std::string own_record = comm_record::to_json(environment.rank, environment.world_size, reason);
  const std::string nccl = nccl_record_json();
  if (nccl.empty()) return own_record;
  using nlohmann::ordered_json;
  ordered_json trace = ordered_json::parse(own_record);
  const ordered_json record = ordered_json::parse(nccl, nullptr, /*allow_exceptions=*/false);
  trace["nccl"] = record.is_discarded() ? ordered_json(nccl) : record;
  return trace.dump(1, ' ', /*ensure_ascii=*/false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string write_comm_trace(const JobConfig& config, const RankEnvironment& environment,
                             const std::string& reason) noexcept {
  try {
    if (comm_record::is_empty()) return "";
    const std::filesystem::path folder =
        std::filesystem::path(config.job.dump_folder) / config.comm.save_traces_folder;
    const std::filesystem::path file =
        folder / (config.comm.save_traces_file_prefix + std::to_string(environment.rank) + ".json");
    std::string under_way = comm_record::under_way();
    if (!under_way.empty()) under_way = "; in progress: " + under_way;
    std::error_code problem;
    std::filesystem::create_directories(folder, problem);  // replace_file reports the error
    replace_file(file, trace_text(environment, reason), FileUse::run);
    return under_way + "; " + file.string() + " has the earlier collectives";
  } catch (const std::exception& error) {
    log_warning(std::string("the record of collectives could not be written: ") + error.what());
    return "";
  }
}

}  // namespace rondo
