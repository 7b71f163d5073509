// A test device other than the host. The host cannot read its memory: dereferencing an address of
// it ends the process. Its kernels are those of the CPU, over copies. So a step on it has the bits
// of the CPU, and a read of its tensors without a copy is detected.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>

namespace rondo {

// The first call registers the device.
c10::Device far_device();

// A block of its memory.
char* reserve_far(std::size_t bytes);
void release_far(char* block);

}  // namespace rondo
