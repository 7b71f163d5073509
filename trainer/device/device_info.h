// What the program knows of the accelerator it was built for. Two implementations, one of which the build
// picks: device_info_cpu.cpp, device_info_cuda.cpp. Any thread.
#pragma once

#include <string>

namespace rondo {

// One line for `--version`: "none" in a CPU build, else the versions of the CUDA runtime and of NCCL's
// library that the program found: "CUDA 13.0, NCCL 2.28.9". Touches no GPU. Throws Error(environment) where
// one of them does not tell.
std::string cuda_build_info();

// NCCL's library may be newer than the header that the program was compiled with, and not older: other
// packages of an environment bring their own. Throws Error(environment) where it is, with both versions; a
// run of one rank calls nothing of NCCL, and gets a warning.
void check_nccl(int world_size);

}  // namespace rondo
