// A thread takes eight consecutive pairs of a gate and an up.
#include "ops/kernel/kernel_launch.cuh"
#include "ops/kernel/vectors.cuh"
#include "ops/swiglu/clamped_swiglu_cuda.h"
#include "ops/swiglu/swiglu_math.h"

namespace rondo::cuda {
namespace {

constexpr int kThreads = 256, kOfBlock = kThreads * kVector;

__device__ std::int64_t first_pair() {
  return (static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x) * kVector;
}

// Pair i is at 2 i and 2 i + 1.
struct Pairs {
  float first_half[kVector], second_half[kVector];
  __device__ float& gate(int i) { return i < kVector / 2 ? first_half[2 * i] : second_half[2 * i - kVector]; }
  __device__ float& up(int i) {
    return i < kVector / 2 ? first_half[2 * i + 1] : second_half[2 * i + 1 - kVector];
  }
};
template <bool kAligned, class T>
__device__ void load_pairs(const T* gate_up, std::int64_t first, std::int64_t count, Pairs& pairs) {
  load_some<kAligned>(gate_up, 2 * first, 2 * count, pairs.first_half);
  load_some<kAligned>(gate_up, 2 * first + kVector, 2 * count, pairs.second_half);
}

template <class T, bool kAligned>
__global__ void __launch_bounds__(kThreads)
    forward_kernel(const T* gate_up, T* y, std::int64_t count, float limit, float slope) {
  const std::int64_t first = first_pair();
  if (first >= count) return;
  Pairs pairs;
  load_pairs<kAligned>(gate_up, first, count, pairs);
  float results[kVector];
#pragma unroll
  for (int i = 0; i < kVector; ++i)
    results[i] = swiglu::forward(pairs.gate(i), pairs.up(i), swiglu::Clamp<float>{limit, slope});
  store_some<kAligned>(y, first, count, results);
}

template <class T, bool kAligned>
__global__ void __launch_bounds__(kThreads) backward_kernel(const T* grad, const T* gate_up, T* grad_gate_up,
                                                            std::int64_t count, float limit, float slope) {
  const std::int64_t first = first_pair();
  if (first >= count) return;
  float d[kVector];
  Pairs pairs;
  load_some<kAligned>(grad, first, count, d);
  load_pairs<kAligned>(gate_up, first, count, pairs);
#pragma unroll
  for (int i = 0; i < kVector; ++i) {
    const swiglu::Gradients<float> gradients =
        swiglu::backward(d[i], pairs.gate(i), pairs.up(i), swiglu::Clamp<float>{limit, slope});
    pairs.gate(i) = gradients.gate;
    pairs.up(i) = gradients.up;
  }
  store_some<kAligned>(grad_gate_up, 2 * first, 2 * count, pairs.first_half);
  store_some<kAligned>(grad_gate_up, 2 * first + kVector, 2 * count, pairs.second_half);
}

}  // namespace

void clamped_swiglu(const ClampedPairs& in, void* y, cudaStream_t stream) {
  const bool all_aligned = aligned(in.gate_up) && aligned(y) && in.count % kVector == 0;
  with_f32_or_bf16(in.element, [&](auto type) {
    with_alignment(all_aligned, [&](auto whole) {
      launch(&forward_kernel<decltype(type), whole()>, blocks_for(in.count, kOfBlock), kThreads, stream,
             in.gate_up, y, in.count, in.limit, in.slope);
    });
  });
}

void clamped_swiglu_backward(const ClampedPairs& in, const void* grad, void* grad_gate_up,
                             cudaStream_t stream) {
  const bool all_aligned =
      aligned(in.gate_up) && aligned(grad) && aligned(grad_gate_up) && in.count % kVector == 0;
  with_f32_or_bf16(in.element, [&](auto type) {
    with_alignment(all_aligned, [&](auto whole) {
      launch(&backward_kernel<decltype(type), whole()>, blocks_for(in.count, kOfBlock), kThreads, stream,
             grad, in.gate_up, grad_gate_up, in.count, in.limit, in.slope);
    });
  });
}

}  // namespace rondo::cuda
