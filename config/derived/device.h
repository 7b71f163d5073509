// The device that a configuration comes to.
#pragma once

#include <optional>

#include "config/schema/job_config.h"

namespace rondo {

// What job.device comes to for this program, on this machine. Throws Error(environment) where a GPU is
// requested and the program was built without CUDA, or the machine shows none.
TargetDevice device_of(const JobConfig& config);
// The rule behind it.
TargetDevice choose_device(std::optional<TargetDevice> requested, bool built_with_cuda, int gpus);

}  // namespace rondo
