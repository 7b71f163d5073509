// A block takes a row, or in the backward one row after the other, and holds it in registers: x and grad are
// read once.
#include <algorithm>
#include <type_traits>

#include "ops/kernel/kernel_launch.cuh"
#include "ops/kernel/vectors.cuh"
#include "ops/rms_norm/rms_norm_cuda.h"
#include "ops/rms_norm/rms_norm_math.h"

namespace rondo::cuda {
namespace {

constexpr int kMostThreads = 1024;
constexpr std::int64_t kMostParts = 512;  // four blocks of 512 threads for most of the multiprocessors
static_assert(rms_norm::kWidestRow == 2 * kMostThreads * kVector);

template <class X, class W>
using Wider = std::conditional_t<std::is_same_v<X, W>, X, float>;

// Where piece p of a thread begins in its row.
__device__ std::int64_t first_of(int piece) {
  return (static_cast<std::int64_t>(piece) * blockDim.x + threadIdx.x) * kVector;
}

template <class X, class W, int kPieces>
__global__ void __launch_bounds__(kMostThreads)
    forward_kernel(const X* x, std::int64_t x_stride, const X* residual, X* sum, const W* weight,
                   Wider<X, W>* y, float* inverse_rms, std::int64_t width, float eps, bool aligned) {
  __shared__ float warps[kWarp];
  const std::int64_t row = blockIdx.x;
  float values[kPieces][kVector];
  float squares = 0;
#pragma unroll
  for (int p = 0; p < kPieces; ++p) {
    load_some(x + row * x_stride, first_of(p), width, aligned, values[p]);
    if (sum != nullptr) {
      float added[kVector];
      load_some(residual + row * width, first_of(p), width, aligned, added);
#pragma unroll
      for (int i = 0; i < kVector; ++i) values[p][i] = widened(rounded<X>(values[p][i] + added[i]));
      store_some(sum + row * width, first_of(p), width, aligned, values[p]);
    }
#pragma unroll
    for (int i = 0; i < kVector; ++i) squares += values[p][i] * values[p][i];
  }
  const float inverse = rms_norm::inverse_rms(block_sum(squares, warps), width, eps);
  if (threadIdx.x == 0) inverse_rms[row] = inverse;
#pragma unroll
  for (int p = 0; p < kPieces; ++p) {
    float w[kVector];
    load_some(weight, first_of(p), width, aligned, w);
#pragma unroll
    for (int i = 0; i < kVector; ++i) values[p][i] = rms_norm::normalized(values[p][i], inverse, w[i]);
    store_some(y + row * width, first_of(p), width, aligned, values[p]);
  }
}

template <class X, class W, int kPieces>
__global__ void __launch_bounds__(kMostThreads)
    backward_kernel(const Wider<X, W>* grad, std::int64_t grad_stride, const X* x, std::int64_t x_stride,
                    const W* weight, const float* inverse_rms, const X* grad_sum, X* grad_x, float* parts,
                    std::int64_t rows, std::int64_t width, bool aligned) {
  __shared__ float warps[kWarp];
  float sums[kPieces][kVector] = {};
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const float inverse = inverse_rms[row];
    float values[kPieces][kVector], g[kPieces][kVector];
    float sum = 0;
#pragma unroll
    for (int p = 0; p < kPieces; ++p) {
      float w[kVector];
      load_some(x + row * x_stride, first_of(p), width, aligned, values[p]);
      load_some(grad + row * grad_stride, first_of(p), width, aligned, g[p]);
      load_some(weight, first_of(p), width, aligned, w);
#pragma unroll
      for (int i = 0; i < kVector; ++i) {
        sums[p][i] += g[p][i] * values[p][i] * inverse;
        g[p][i] *= w[i];
        sum += g[p][i] * values[p][i];
      }
    }
    const float pull = rms_norm::pull(block_sum(sum, warps), width, inverse);
#pragma unroll
    for (int p = 0; p < kPieces; ++p) {
#pragma unroll
      for (int i = 0; i < kVector; ++i) g[p][i] = rms_norm::gradient(g[p][i], values[p][i], inverse, pull);
      if (grad_sum != nullptr) {
        load_some(grad_sum + row * width, first_of(p), width, aligned, values[p]);
#pragma unroll
        for (int i = 0; i < kVector; ++i) g[p][i] = widened(rounded<X>(g[p][i])) + values[p][i];
      }
      store_some(grad_x + row * width, first_of(p), width, aligned, g[p]);
    }
  }
#pragma unroll
  for (int p = 0; p < kPieces; ++p)
    store_some(parts + blockIdx.x * width, first_of(p), width, aligned, sums[p]);
}

// Blocks of 32 columns times 8 groups of parts; one order of adding for each column.
constexpr int kColumns = 32, kGroups = 8;
__global__ void sum_kernel(const float* parts, std::int64_t count, std::int64_t width, float* grad_weight) {
  __shared__ float sums[kGroups][kColumns];
  const unsigned of_block = threadIdx.x % kColumns, of_group = threadIdx.x / kColumns;
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * kColumns + of_block;
  float sum = 0;
  if (column < width)
    for (std::int64_t part = of_group; part < count; part += kGroups) sum += parts[part * width + column];
  sums[of_group][of_block] = sum;
  __syncthreads();
  if (of_group != 0 || column >= width) return;
  sum = 0;
#pragma unroll
  for (int group = 0; group < kGroups; ++group) sum += sums[group][of_block];
  grad_weight[column] = sum;
}

// Calls f(x's type, weight's type, pieces of a thread).
template <class F>
void with_types(const RmsNormRows& in, const F& f) {
  with_f32_or_bf16(in.x_element, [&](auto x) {
    with_f32_or_bf16(in.weight_element, [&](auto w) {
      if (in.width <= kMostThreads * kVector) return f(x, w, std::integral_constant<int, 1>());
      f(x, w, std::integral_constant<int, 2>());
    });
  });
}

unsigned threads_for(std::int64_t width, int pieces) {
  const std::int64_t threads = (width + pieces * kVector - 1) / (pieces * kVector);
  return static_cast<unsigned>((threads + kWarp - 1) / kWarp * kWarp);
}

bool aligned_rows(const RmsNormRows& in) {
  return in.width % kVector == 0 && in.x_stride % kVector == 0 && aligned(in.x) && aligned(in.weight);
}

}  // namespace

void rms_norm(const RmsNormRows& in, const void* residual, void* sum, float eps, void* y, float* inverse_rms,
              cudaStream_t stream) {
  const bool all_aligned = aligned_rows(in) && aligned(residual) && aligned(sum) && aligned(y);
  with_types(in, [&](auto x, auto w, auto pieces) {
    launch(&forward_kernel<decltype(x), decltype(w), pieces()>, static_cast<unsigned>(in.rows),
           threads_for(in.width, pieces()), stream, in.x, in.x_stride, residual, sum, in.weight, y,
           inverse_rms, in.width, eps, all_aligned);
  });
}

std::int64_t rms_norm_parts(std::int64_t rows) { return std::min(rows, kMostParts); }

void rms_norm_backward(const RmsNormRows& in, const void* grad, std::int64_t grad_stride,
                       const float* inverse_rms, const void* grad_sum, void* grad_x, float* parts,
                       float* grad_weight, cudaStream_t stream) {
  const bool all_aligned = aligned_rows(in) && grad_stride % kVector == 0 && aligned(grad) &&
                           aligned(grad_sum) && aligned(grad_x) && aligned(parts);
  const std::int64_t count = rms_norm_parts(in.rows);
  with_types(in, [&](auto x, auto w, auto pieces) {
    launch(&backward_kernel<decltype(x), decltype(w), pieces()>, static_cast<unsigned>(count),
           threads_for(in.width, pieces()), stream, grad, grad_stride, in.x, in.x_stride, in.weight,
           inverse_rms, grad_sum, grad_x, parts, in.rows, in.width, all_aligned);
  });
  launch(&sum_kernel, blocks_for(in.width, kColumns), kColumns * kGroups, stream, parts, count, in.width,
         grad_weight);
}

}  // namespace rondo::cuda
