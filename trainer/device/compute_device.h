// Where this rank computes, and what its reports say of it.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <optional>
#include <string>

#include "config/schema/job_config.h"
#include "launch/rendezvous/environment.h"

namespace rondo {

struct ComputeDevice {
  c10::Device device = c10::kCPU;
  std::string name;               // "NVIDIA H200"; empty on the CPU
  std::int64_t memory_bytes = 0;  // of the GPU, or of the machine
  std::int64_t tensor_bytes = 0;  // of these, what tensors of this rank can have
  // Dense bf16, per second. Empty on a CPU, and on a GPU that compiler/plan/devices.h does not have.
  std::optional<double> peak_flops = {};

  std::string type() const { return device.is_cuda() ? "cuda" : "cpu"; }
  // Most bytes of tensors at a time since the last reset.
  std::int64_t peak_bytes() const;
  void reset_peak() const;  // of the host's tensors, too
};

// What job.device comes to; a rank's GPU is the one with its local rank. Before the first tensor on a GPU.
// Throws Error(environment): there is none for this rank, or the program's libraries do not fit each other.
ComputeDevice take_device(const JobConfig& config, const RankEnvironment& environment);

}  // namespace rondo
