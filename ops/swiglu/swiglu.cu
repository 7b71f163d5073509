// A thread takes eight neighbours.
#include "ops/kernel/kernel_launch.cuh"
#include "ops/kernel/vectors.cuh"
#include "ops/swiglu/swiglu_cuda.h"
#include "ops/swiglu/swiglu_math.h"

namespace rondo::cuda {
namespace {

constexpr int kThreads = 256, kOfBlock = kThreads * kVector;

__device__ std::int64_t first_of_thread() {
  return (static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x) * kVector;
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    forward_kernel(const T* gate, const T* up, T* y, std::int64_t count, bool aligned) {
  const std::int64_t first = first_of_thread();
  if (first >= count) return;
  float g[kVector], u[kVector];
  load_some(gate, first, count, aligned, g);
  load_some(up, first, count, aligned, u);
#pragma unroll
  for (int i = 0; i < kVector; ++i) g[i] = swiglu::forward(g[i], u[i]);
  store_some(y, first, count, aligned, g);
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    backward_kernel(const T* grad, const T* gate, const T* up, T* grad_gate, T* grad_up, std::int64_t count,
                    bool aligned) {
  const std::int64_t first = first_of_thread();
  if (first >= count) return;
  float d[kVector], g[kVector], u[kVector];
  load_some(grad, first, count, aligned, d);
  load_some(gate, first, count, aligned, g);
  load_some(up, first, count, aligned, u);
#pragma unroll
  for (int i = 0; i < kVector; ++i) {
    const swiglu::Gradients<float> made = swiglu::backward(d[i], g[i], u[i]);
    g[i] = made.gate;
    u[i] = made.up;
  }
  store_some(grad_gate, first, count, aligned, g);
  store_some(grad_up, first, count, aligned, u);
}

}  // namespace

void swiglu(Element element, const void* gate, const void* up, void* y, std::int64_t count,
            cudaStream_t stream) {
  const bool all_aligned = aligned(gate) && aligned(up) && aligned(y);
  with_f32_or_bf16(element, [&](auto type) {
    launch(&forward_kernel<decltype(type)>, blocks_for(count, kOfBlock), kThreads, stream, gate, up, y, count,
           all_aligned);
  });
}

void swiglu_backward(Element element, const void* grad, const void* gate, const void* up, void* grad_gate,
                     void* grad_up, std::int64_t count, cudaStream_t stream) {
  const bool all_aligned =
      aligned(grad) && aligned(gate) && aligned(up) && aligned(grad_gate) && aligned(grad_up);
  with_f32_or_bf16(element, [&](auto type) {
    launch(&backward_kernel<decltype(type)>, blocks_for(count, kOfBlock), kThreads, stream, grad, gate, up,
           grad_gate, grad_up, count, all_aligned);
  });
}

}  // namespace rondo::cuda
