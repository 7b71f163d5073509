// replay_device.h on CUDA: one stream, one private pool of LibTorch's caching allocator, and
// at::cuda::CUDAGraph, which registers the default generator, so that random ops replay as they should.
#pragma once

#include <memory>

#include "compiler/execute/replay_device.h"

namespace rondo::cuda {

// Throws c10::Error without a GPU. REQUIRES: install_placing_allocator() came before the first tensor on the
// device.
std::shared_ptr<ReplayDevice> make_device(int index);

}  // namespace rondo::cuda
