// The number of GPUs that this process may use, without loading a driver.
#pragma once

namespace rondo {

// Counts the devices in CUDA_VISIBLE_DEVICES, or else the device files /dev/nvidiaN. 0: no GPU, or
// no NVIDIA driver.
int visible_gpus();

}  // namespace rondo
