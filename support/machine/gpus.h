// The GPUs that this process may use, without CUDA.
#pragma once

namespace rondo {

// Counts the devices in CUDA_VISIBLE_DEVICES, or else the device files /dev/nvidiaN. 0: no GPU, or
// no NVIDIA driver. Takes no time.
int visible_gpus();

// Counts the devices that CUDA would give to a process, as far as NVML says; without NVML returns
// visible_gpus(). GPUs that the driver has lost do not count, nor does what follows the first
// invalid entry of CUDA_VISIBLE_DEVICES. MIG devices count as one together: CUDA gives a process
// only one of them (NVIDIA's MIG User Guide). Waits for the driver.
int gpus_of_driver();

}  // namespace rondo
