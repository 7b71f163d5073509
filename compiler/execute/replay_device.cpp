#include "compiler/execute/replay_device.h"

namespace rondo {

std::string_view likely_cause(std::string_view error) {
  const auto says = [&](std::string_view text) { return error.find(text) != std::string_view::npos; };
  if (says("Cannot copy between CPU and CUDA tensors") || says("to be on the same device") ||
      says("CPU length tensors") || says("found at least two devices"))
    return "one of its tensors is on the CPU";
  if (says("out of memory")) return "it allocates memory outside of the warmed-up pool";
  if (says("legacy stream") || says("uncaptured work") || says("unjoined") || says("another stream"))
    return "it uses a stream that is not part of the recording";
  if (says("when stream is capturing") || says("during capture") || says("synchroniz"))
    return "it waits for the device, or allocates memory outside of the pool";
  return "unknown; the op may run on the host";
}

}  // namespace rondo
