// How many GPUs this process may use, without loading a driver.
#pragma once

namespace rondo {

// Those that CUDA_VISIBLE_DEVICES lists, or else the device files /dev/nvidiaN. 0: none, or no NVIDIA driver.
int visible_gpus();

}  // namespace rondo
