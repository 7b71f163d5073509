#include "config/derived/device.h"

#include "support/error.h"
#include "support/machine/gpus.h"

namespace rondo {

TargetDevice device_of(const JobConfig& config) {
  return choose_device(config.job.device, RONDO_BUILT_WITH_CUDA, visible_gpus());
}

TargetDevice choose_device(std::optional<TargetDevice> requested, bool built_with_cuda, int gpus) {
  if (!requested) return built_with_cuda && gpus > 0 ? TargetDevice::cuda : TargetDevice::cpu;
  if (requested == TargetDevice::cuda && !built_with_cuda)
    throw Error(ExitCode::environment,
                "job.device = \"cuda\": this program was built without CUDA; build the preset cuda "
                "(scripts/build.sh cuda), or set job.device = \"cpu\"");
  if (requested == TargetDevice::cuda && gpus == 0)
    throw Error(ExitCode::environment,
                "job.device = \"cuda\": this machine shows no GPU (no /dev/nvidia0, or CUDA_VISIBLE_DEVICES "
                "is empty); `rondo doctor` reports its devices");
  return *requested;
}

}  // namespace rondo
