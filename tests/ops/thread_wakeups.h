// Counts how often this process has woken threads for a parallel loop: calls of GCC's OpenMP, by
// LibTorch and by Rondo's ops.
#pragma once

#include <cstdint>

namespace rondo {

std::int64_t thread_wakeups();

}  // namespace rondo
