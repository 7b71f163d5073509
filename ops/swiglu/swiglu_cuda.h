// The kernels of ops/swiglu/swiglu.h on CUDA: plain addresses of `count` elements each, f32 or bf16, checked
// by the caller. Launched on `stream`, no wait. No LibTorch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "ops/kernel/element.h"

namespace rondo::cuda {

// REQUIRES: count > 0.
void swiglu(Element element, const void* gate, const void* up, void* y, std::int64_t count,
            cudaStream_t stream);
void swiglu_backward(Element element, const void* grad, const void* gate, const void* up, void* grad_gate,
                     void* grad_up, std::int64_t count, cudaStream_t stream);

}  // namespace rondo::cuda
