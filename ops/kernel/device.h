// Marks what CPU and CUDA kernels share: plain inline functions of numbers, so that tests of the CPU kernel
// try the arithmetic of both.
#pragma once

#ifdef __CUDACC__
#define RONDO_DEVICE __host__ __device__
#else
#define RONDO_DEVICE
#endif
