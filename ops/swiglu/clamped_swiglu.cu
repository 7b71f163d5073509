// A thread takes eight consecutive pairs of a gate and an up. Pairs of empty rows are zeros instead
// of loads, and have zeros for results.
#include "ops/kernel/filled_rows.h"
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

// Sizes of a matrix of pairs, and its number of valid rows.
struct Filled {
  std::int64_t rows, width;
  const std::int32_t* count;
  __device__ std::int64_t pairs() const { return filled_rows(count, rows) * width; }
  __device__ std::int64_t all_pairs() const { return rows * width; }
};

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
    forward_kernel(const T* gate_up, T* y, Filled filled, float limit, float slope) {
  const std::int64_t first = first_pair();
  if (first >= filled.all_pairs()) return;
  Pairs pairs;
  load_pairs<kAligned>(gate_up, first, filled.pairs(), pairs);
  float results[kVector];
#pragma unroll
  for (int i = 0; i < kVector; ++i)
    results[i] = swiglu::forward(pairs.gate(i), pairs.up(i), swiglu::Clamp<float>{limit, slope});
  store_some<kAligned>(y, first, filled.all_pairs(), results);
}

template <class T, bool kAligned>
__global__ void __launch_bounds__(kThreads) backward_kernel(const T* grad, const T* gate_up, T* grad_gate_up,
                                                            Filled filled, float limit, float slope) {
  const std::int64_t first = first_pair(), all = filled.all_pairs(), valid = filled.pairs();
  if (first >= all) return;
  float d[kVector];
  Pairs pairs;
  load_some<kAligned>(grad, first, valid, d);
  load_pairs<kAligned>(gate_up, first, valid, pairs);
#pragma unroll
  for (int i = 0; i < kVector; ++i) {
    const swiglu::Gradients<float> gradients =
        swiglu::backward(d[i], pairs.gate(i), pairs.up(i), swiglu::Clamp<float>{limit, slope});
    pairs.gate(i) = gradients.gate;
    pairs.up(i) = gradients.up;
  }
  store_some<kAligned>(grad_gate_up, 2 * first, 2 * all, pairs.first_half);
  store_some<kAligned>(grad_gate_up, 2 * first + kVector, 2 * all, pairs.second_half);
}

}  // namespace

void clamped_swiglu(const ClampedPairs& in, void* y, cudaStream_t stream) {
  const bool all_aligned = aligned(in.gate_up) && aligned(y) && in.width % kVector == 0;
  with_f32_or_bf16(in.element, [&](auto type) {
    with_alignment(all_aligned, [&](auto whole) {
      launch(&forward_kernel<decltype(type), whole()>, blocks_for(in.rows * in.width, kOfBlock), kThreads,
             stream, in.gate_up, y, Filled{in.rows, in.width, in.count}, in.limit, in.slope);
    });
  });
}

void clamped_swiglu_backward(const ClampedPairs& in, const void* grad, void* grad_gate_up,
                             cudaStream_t stream) {
  const bool all_aligned =
      aligned(in.gate_up) && aligned(grad) && aligned(grad_gate_up) && in.width % kVector == 0;
  with_f32_or_bf16(in.element, [&](auto type) {
    with_alignment(all_aligned, [&](auto whole) {
      launch(&backward_kernel<decltype(type), whole()>, blocks_for(in.rows * in.width, kOfBlock), kThreads,
             stream, grad, in.gate_up, grad_gate_up, Filled{in.rows, in.width, in.count}, in.limit, in.slope);
    });
  });
}

}  // namespace rondo::cuda
