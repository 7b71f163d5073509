// The device of a rank, and its facts for reports.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <optional>
#include <string>

#include "config/schema/job_config.h"
#include "launch/rendezvous/environment.h"
#include "support/machine/memory_room.h"

namespace rondo {

struct ComputeDevice {
  c10::Device device = c10::kCPU;
  std::string name;               // "NVIDIA H200"; empty on the CPU
  std::int64_t memory_bytes = 0;  // of the GPU, or of the machine
  std::int64_t tensor_bytes = 0;  // the part that tensors of this rank can use
  MemoryRoom room = {};           // the memory that this rank may have at its start
  // Dense bf16, per second: metrics.peak_tflops, or else the maker's; nullopt if unknown, as for
  // every CPU.
  std::optional<double> peak_flops = {};

  TargetDevice type() const { return device.is_cuda() ? TargetDevice::cuda : TargetDevice::cpu; }
  // Returns the peak bytes of tensors since the last reset.
  std::int64_t peak_bytes() const;
  void reset_peak() const;  // also resets the peak of host tensors
};

// Selects the device of job.device; on GPUs the one with the local rank's index. REQUIRES: no
// tensor on a GPU exists yet. Throws Error(environment) if there is no GPU for this rank, or the
// program's libraries are incompatible.
ComputeDevice take_device(const JobConfig& config, const RankEnvironment& environment);

}  // namespace rondo
