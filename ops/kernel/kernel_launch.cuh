// kernel<<<grid, threads, 0, stream>>>(arguments...) as a function. Where no CUDA compiler is at work it is
// run_on_host, which tests declare (tests/cuda/host/): so they run kernels without a GPU.
#pragma once

#include <cuda_runtime_api.h>

namespace rondo::cuda {

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
