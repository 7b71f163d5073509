// replay_device.h on CUDA: one stream, one private pool of LibTorch's caching allocator, and
// at::cuda::CUDAGraph, which registers the default generator, so that random ops replay correctly.
#pragma once

#include <memory>

#include "compiler/execute/replay_device.h"

namespace rondo::cuda {

// Throws c10::Error without a GPU. REQUIRES: install_placing_allocator() ran before its
// first tensor.
std::shared_ptr<ReplayDevice> make_device(int index);

}  // namespace rondo::cuda
