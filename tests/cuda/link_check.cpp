// A CUDA build compiles against NCCL's header, links libtorch_cuda.so and starts. Needs no GPU.
#include <cstdio>
#include <exception>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "trainer/device_info.h"

int main() {
  try {
    const auto options = c10d::ProcessGroupNCCL::Options::create();
    std::printf("%s; process group backend \"%s\"\n", rondo::cuda_build_info().c_str(),
                options->backend.c_str());
    return options->backend == "nccl" ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "cuda_link_check: %s\n", error.what());
    return 1;
  }
}
