// Compiled without contraction, for the bits of the CPU. A thread has a piece of 16 numbers.
#include "ops/float8/nvfp4_cuda.h"
#include "ops/kernel/kernel_launch.cuh"

namespace rondo::cuda {
namespace {

constexpr int kThreads = 128;

__global__ void __launch_bounds__(kThreads) piece_kernel(nvfp4::Job job) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i < job.pieces()) nvfp4::quantize_piece(job, i);
}

}  // namespace

void quantize_nvfp4(const nvfp4::Job& job, cudaStream_t stream) {
  launch(piece_kernel, blocks_for(job.pieces(), kThreads), kThreads, stream, job);
}

}  // namespace rondo::cuda
