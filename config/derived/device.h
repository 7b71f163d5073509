// Resolves the device of a run.
#pragma once

#include <optional>

#include "config/schema/job_config.h"

namespace rondo {

// Resolves job.device for this program on this machine. Throws Error(environment) if a GPU is
// requested and the program was built without CUDA, or the machine has none.
TargetDevice device_of(const JobConfig& config);
// The rule of device_of, as a pure function.
TargetDevice choose_device(std::optional<TargetDevice> requested, bool built_with_cuda, int gpus);

}  // namespace rondo
