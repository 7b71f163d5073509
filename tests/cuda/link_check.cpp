// Checks that a CUDA build compiles against NCCL's header, links libtorch_cuda.so and starts,
// including the recording of steps on a GPU. Every op of Rondo must have a kernel for CUDA. Needs
// no GPU; without one, it reports that there is no device to record on.
#include <ATen/core/dispatch/Dispatcher.h>

#include <cstdio>
#include <exception>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "compiler/execute/cuda/cuda_device.h"
#include "compiler/execute/cuda/placing_allocator.h"
#include "trainer/device/device_info.h"

namespace {

std::string recording_device() {
  try {
    rondo::cuda::install_placing_allocator();
    return rondo::cuda::make_device(0)->device().str();
  } catch (const std::exception& error) {
    const std::string text = error.what();
    return "none: " + text.substr(0, text.find('\n'));
  }
}

// Returns Rondo's ops that a device could not run: "a, b".
std::string ops_without_cuda() {
  std::string missing;
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
    if (name.name.rfind("rondo::", 0) != 0) continue;
    const auto op = c10::Dispatcher::singleton().findOp(name);
    if (!op->hasComputedKernelForDispatchKey(c10::DispatchKey::CUDA))
      missing += (missing.empty() ? "" : ", ") + name.name;
  }
  return missing;
}

}  // namespace

int main() {
  try {
    const auto options = c10d::ProcessGroupNCCL::Options::create();
    std::printf("%s; process group backend \"%s\"\n", rondo::cuda_build_info().c_str(),
                options->backend.c_str());
    std::printf("records on %s\n", recording_device().c_str());
    const std::string missing = ops_without_cuda();
    std::printf("ops without a kernel for CUDA: %s\n", missing.empty() ? "none" : missing.c_str());
    return options->backend == "nccl" && missing.empty() ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "cuda_link_check: %s\n", error.what());
    return 1;
  }
}
