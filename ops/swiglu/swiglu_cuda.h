// What swiglu.cu offers: plain addresses of `count` elements each, checked by the caller. Launches on `stream` and does
// not wait.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace rondo::cuda {

// REQUIRES: count > 0.
void swiglu(bool is_bf16, const void* gate, const void* up, void* y, std::int64_t count, cudaStream_t stream);
void swiglu_backward(bool is_bf16, const void* grad, const void* gate, const void* up, void* grad_gate,
                     void* grad_up, std::int64_t count, cudaStream_t stream);

}  // namespace rondo::cuda
