// A device of the tests that is not the host: its memory lies where the host cannot read it (an address of it
// that is followed ends the process), and its kernels are the CPU's, over copies. So a step on it gives the
// CPU's bits, and whatever reads a tensor of it without copying it first is found.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>

namespace rondo {

// Made ready by the first call.
c10::Device far_device();

// A block of its memory, and its end.
char* reserve_far(std::size_t bytes);
void release_far(char* block);

}  // namespace rondo
