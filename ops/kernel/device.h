// Marks functions that CPU and CUDA kernels share. They are plain inline functions of numbers, so
// tests of the CPU kernel test the arithmetic of both.
#pragma once

#ifdef __CUDACC__
#define RONDO_DEVICE __host__ __device__
#else
#define RONDO_DEVICE
#endif
