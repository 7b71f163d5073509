// Writes what uses a rank's memory, every profile_freq steps and when memory is exhausted:
// RUN/memory_snapshot/iteration_N/rankR_memory.json, or iteration_N_exit/ for a failed step. One
// JSON object:
//
//   step, rank, world_size, reason
//   process    rss_bytes, pss_bytes, peak_rss_bytes
//   tensors    of the host: live_bytes; peak_bytes in the last step; allocations since the start
//   state      parameters, optimizer, buffers: bytes of this rank's shards
//   functions  of each traced function: its name and plan, as in the event `memory`
//              (docs/run_folder.md), peak_at, largest_at_peak, saved_by_module
//   gpu        on a GPU: the segments and blocks of the caching allocator (gpu_records.h)
//
// Used by one thread.
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
  // `folder`: of the snapshots. The functions must outlive this.
  MemorySnapshot(const Profiling& config, std::filesystem::path folder,
                 std::vector<const CompiledStep*> functions, int rank, int world_size);

  // Writes at every profile_freq-th step, and resets the peak at each step. Throws as
  // replace_file does.
  void step_done(std::int64_t step) const;
  // Writes if `step` failed for lack of memory. Throws nothing, so that the original
  // failure propagates.
  void step_failed(std::int64_t step, const std::exception& failure) const noexcept;

 private:
  void write(const std::string& iteration, std::int64_t step, const std::string& reason) const;

  std::int64_t freq_;
  std::filesystem::path folder_;
  std::vector<const CompiledStep*> functions_;
  int rank_, world_size_;
};

}  // namespace rondo
