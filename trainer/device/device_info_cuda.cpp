#include <cuda_runtime_api.h>
#include <nccl.h>

#include "support/error.h"
#include "support/log.h"
#include "trainer/device/device_info.h"

namespace rondo {
namespace {

std::string nccl_version_text(int code) {
  return std::to_string(code / 10000) + "." + std::to_string(code / 100 % 100) + "." +
         std::to_string(code % 100);
}

int nccl_library_version() {
  int version = 0;
  if (ncclGetVersion(&version) != ncclSuccess)
    throw Error(ExitCode::environment,
                "NCCL's library does not report its version; run scripts/setup.sh --cuda");
  return version;
}

std::string cuda_runtime_version() {
  int version = 0;
  if (cudaRuntimeGetVersion(&version) != cudaSuccess)
    throw Error(ExitCode::environment,
                "the CUDA runtime does not report its version; run scripts/setup.sh --cuda");
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

}  // namespace

std::string cuda_build_info() {
  return "CUDA " + cuda_runtime_version() + ", NCCL " + nccl_version_text(nccl_library_version()) +
         ", cuDNN frontend " RONDO_CUDNN_FRONTEND;
}

void check_nccl(int world_size) {
  const int library = nccl_library_version();
  if (library >= NCCL_VERSION_CODE) return;
  const std::string problem = "NCCL's library is " + nccl_version_text(library) + ", older than the " +
                              nccl_version_text(NCCL_VERSION_CODE) + " that the program was compiled with";
  if (world_size > 1)
    throw Error(
        ExitCode::environment,
        problem +
            "; put a newer one first in LD_LIBRARY_PATH, or run scripts/setup.sh --cuda and build again");
  log_warning(problem + "; runs with more than one rank are refused");
}

}  // namespace rondo
