// replay_device.h on the CPU: arenas of cpu_memory.h, calls that are complete when they return, and
// no recordings.
#pragma once

#include <memory>

#include "compiler/execute/replay_device.h"

namespace rondo {

// REQUIRES: cpu_memory::install() ran before the first tensor; without it, results are copied to
// their place.
std::shared_ptr<ReplayDevice> make_cpu_device();

}  // namespace rondo
