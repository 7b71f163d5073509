// Facts of the accelerator that the program was built for. The build selects one of two
// implementations: device_info_cpu.cpp or device_info_cuda.cpp. Thread-safe.
#pragma once

#include <string>

namespace rondo {

// Returns one line for `--version`: "none" in a CPU build, otherwise the versions of the CUDA
// runtime, of NCCL's library and of the headers of cuDNN's frontend: "CUDA 13.0, NCCL 2.28.9, cuDNN
// frontend 1.32.0", the last one "none" without them. Uses no GPU. Throws Error(environment)
// if a version is unavailable.
std::string cuda_build_info();

// Checks that NCCL's library is not older than the header that the program was compiled with; other
// packages of an environment bring their own library. Throws Error(environment) with both versions
// if it is. A run of one rank calls no NCCL function and only gets a warning.
void check_nccl(int world_size);

}  // namespace rondo
