// kernel<<<grid, threads, 0, stream>>>(arguments...) as a function. Without a CUDA compiler it is
// run_on_host, which tests declare (tests/cuda/host/) to run kernels without a GPU.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace rondo::cuda {

// Returns the number of blocks for `items` items, `of_block` per block.
inline unsigned blocks_for(std::int64_t items, std::int64_t of_block) {
  return static_cast<unsigned>((items + of_block - 1) / of_block);
}

template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), dim3 grid, unsigned threads, cudaStream_t stream,
            Arguments... arguments) {
#ifdef __CUDACC__
  kernel<<<grid, threads, 0, stream>>>(static_cast<Parameters>(arguments)...);
#else
  run_on_host([&] { kernel(static_cast<Parameters>(arguments)...); }, grid, threads);
#endif
}

}  // namespace rondo::cuda
