// What the program knows of the accelerator it was built for. Two implementations, one of which the build
// picks: device_info_cpu.cpp, device_info_cuda.cpp. Any thread.
#pragma once

#include <string>

namespace rondo {

// One line for `--version`: "none" in a CPU build, else the CUDA runtime's version and NCCL's, that of the
// header the program was compiled with and that of the library it found: "CUDA 13.0, NCCL 2.28.9". Touches no
// GPU. Throws Error(environment) when NCCL's header and library differ: their structs do too.
std::string cuda_build_info();

}  // namespace rondo
