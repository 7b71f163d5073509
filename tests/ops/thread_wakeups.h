// How often this process has woken threads for a parallel loop so far: calls of GCC's OpenMP, by LibTorch and
// by ops of ours alike.
#pragma once

#include <cstdint>

namespace rondo {

std::int64_t thread_wakeups();

}  // namespace rondo
