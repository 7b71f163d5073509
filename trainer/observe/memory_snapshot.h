// Whose a rank's memory is, written down every profile_freq steps and where it ran out:
// RUN/memory_snapshot/iteration_N/rankR_memory.json, or iteration_N_exit/ of the step that failed. One JSON
// object:
//
//   step, rank, world_size, reason
//   process    rss_bytes, pss_bytes, peak_rss_bytes
//   tensors    of the host: live_bytes; peak_bytes since the step before; allocations since start
//   state      parameters, optimizer, buffers: bytes of this rank's shards
//   functions  of each traced function: its name and plan, as the event `memory` (docs/run_folder.md),
//   peak_at,
//              largest_at_peak, saved_by_module
//   gpu        of a run on a GPU: the caching allocator's segments and blocks (gpu_records.h)
//
// One thread.
#pragma once

#include <cstdint>
#include <exception>
#include <filesystem>
#include <string>
#include <vector>

#include "compiler/compile.h"
#include "config/schema/job_config.h"

namespace rondo {

class MemorySnapshot {
 public:
  // `folder`: that of the snapshots. The steps outlive this.
  MemorySnapshot(const Profiling& config, std::filesystem::path folder,
                 std::vector<const CompiledStep*> functions, int rank, int world_size);

  // Writes at every profile_freq-th step; a peak begins anew with each step. Throws as replace_file does.
  void step_done(std::int64_t step) const;
  // Writes if what ended `step` was a lack of memory. Throws nothing: the failure itself goes on.
  void step_failed(std::int64_t step, const std::exception& failure) const noexcept;

 private:
  void write(const std::string& iteration, std::int64_t step, const std::string& reason) const;

  std::int64_t freq_;
  std::filesystem::path folder_;
  std::vector<const CompiledStep*> functions_;
  int rank_, world_size_;
};

}  // namespace rondo
