// A block takes one row, or in the backward one row after the other, and holds it in registers: x
// and grad are read once. For narrow rows, the heads of queries and keys, a block takes several
// rows side by side, some lanes of a warp per row.
#include <algorithm>
#include <type_traits>

#include "ops/kernel/kernel_launch.cuh"
#include "ops/kernel/vectors.cuh"
#include "ops/rms_norm/rms_norm_cuda.h"
#include "ops/rms_norm/rms_norm_math.h"

namespace rondo::cuda {
namespace {

constexpr int kMaxThreads = 1024;
// Blocks that sum gradients of the weight. Of rows of 4,096 elements, two fit on a multiprocessor.
constexpr std::int64_t kMaxParts = 512;
constexpr int kNarrowThreads = 256;
constexpr std::int64_t kNarrow = kWarp * kVector;  // elements that a warp holds
static_assert(rms_norm::kWidestRow == 2 * kMaxThreads * kVector);

template <class X, class W>
using Wider = std::conditional_t<std::is_same_v<X, W>, X, float>;

// Returns the beginning of a thread's piece in its row.
__device__ std::int64_t first_of(int piece) {
  return (static_cast<std::int64_t>(piece) * blockDim.x + threadIdx.x) * kVector;
}

template <class X, class W, int kPieces, bool kAligned>
__global__ void __launch_bounds__(kMaxThreads)
    forward_kernel(const X* x, std::int64_t x_stride, const X* residual, X* sum, const W* weight,
                   Wider<X, W>* y, float* inverse_rms, std::int64_t width, float eps) {
  __shared__ float warps[kWarp];
  const std::int64_t row = blockIdx.x;
  float values[kPieces][kVector];
  float squares = 0;
#pragma unroll
  for (int p = 0; p < kPieces; ++p) {
    load_some<kAligned>(x + row * x_stride, first_of(p), width, values[p]);
    if (sum != nullptr) {
      float added[kVector];
      load_some<kAligned>(residual + row * width, first_of(p), width, added);
#pragma unroll
      for (int i = 0; i < kVector; ++i) values[p][i] = widened(rounded<X>(values[p][i] + added[i]));
      store_some<kAligned>(sum + row * width, first_of(p), width, values[p]);
    }
#pragma unroll
    for (int i = 0; i < kVector; ++i) squares += values[p][i] * values[p][i];
  }
  const float inverse = rms_norm::inverse_rms(block_sum(squares, warps), width, eps);
  if (threadIdx.x == 0) inverse_rms[row] = inverse;
#pragma unroll
  for (int p = 0; p < kPieces; ++p) {
    float w[kVector];
    load_some<kAligned>(weight, first_of(p), width, w);
#pragma unroll
    for (int i = 0; i < kVector; ++i) values[p][i] = rms_norm::normalized(values[p][i], inverse, w[i]);
    store_some<kAligned>(y + row * width, first_of(p), width, values[p]);
  }
}

template <class X, class W, int kPieces, bool kAligned>
__global__ void __launch_bounds__(kMaxThreads)
    backward_kernel(const Wider<X, W>* grad, std::int64_t grad_stride, const X* x, std::int64_t x_stride,
                    const W* weight, const float* inverse_rms, const X* grad_sum, X* grad_x, float* parts,
                    std::int64_t rows, std::int64_t width) {
  __shared__ float warps[kWarp];
  float sums[kPieces][kVector] = {};
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const float inverse = inverse_rms[row];
    float values[kPieces][kVector], g[kPieces][kVector];
    float sum = 0;
#pragma unroll
    for (int p = 0; p < kPieces; ++p) {
      float w[kVector];
      load_some<kAligned>(x + row * x_stride, first_of(p), width, values[p]);
      load_some<kAligned>(grad + row * grad_stride, first_of(p), width, g[p]);
      load_some<kAligned>(weight, first_of(p), width, w);
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
        load_some<kAligned>(grad_sum + row * width, first_of(p), width, values[p]);
#pragma unroll
        for (int i = 0; i < kVector; ++i) g[p][i] = widened(rounded<X>(g[p][i])) + values[p][i];
      }
      store_some<kAligned>(grad_x + row * width, first_of(p), width, g[p]);
    }
  }
#pragma unroll
  for (int p = 0; p < kPieces; ++p)
    store_some<kAligned>(parts + blockIdx.x * width, first_of(p), width, sums[p]);
}

// --- narrow rows ---

// Returns the lanes that hold a row, a power of two.
__host__ __device__ constexpr int lanes_of(std::int64_t width) {
  int lanes = 1;
  while (lanes * kVector < width) lanes *= 2;
  return lanes;
}

// Returns the sum over the lanes of a row to each of them.
__device__ float row_sum(float x, int lanes) {
  for (int step = lanes / 2; step > 0; step /= 2) x += __shfl_xor_sync(kAllLanes, x, step);
  return x;
}

template <class X, class W, bool kAligned>
__global__ void __launch_bounds__(kNarrowThreads)
    narrow_forward_kernel(const X* x, std::int64_t x_stride, const X* residual, X* sum, const W* weight,
                          Wider<X, W>* y, float* inverse_rms, std::int64_t rows, std::int64_t width,
                          float eps) {
  const int lanes = lanes_of(width), lane = static_cast<int>(threadIdx.x) % lanes;
  const std::int64_t row =
      static_cast<std::int64_t>(blockIdx.x) * (kNarrowThreads / lanes) + threadIdx.x / lanes;
  const std::int64_t first = lane * kVector, end = row < rows ? width : 0;
  float values[kVector], w[kVector];
  load_some<kAligned>(x + row * x_stride, first, end, values);
  load_some<kAligned>(weight, first, end, w);
  if (sum != nullptr) {
    float added[kVector];
    load_some<kAligned>(residual + row * width, first, end, added);
#pragma unroll
    for (int i = 0; i < kVector; ++i) values[i] = widened(rounded<X>(values[i] + added[i]));
    store_some<kAligned>(sum + row * width, first, end, values);
  }
  float squares = 0;
#pragma unroll
  for (int i = 0; i < kVector; ++i) squares += values[i] * values[i];
  const float inverse = rms_norm::inverse_rms(row_sum(squares, lanes), width, eps);
  if (row < rows && lane == 0) inverse_rms[row] = inverse;
#pragma unroll
  for (int i = 0; i < kVector; ++i) values[i] = rms_norm::normalized(values[i], inverse, w[i]);
  store_some<kAligned>(y + row * width, first, end, values);
}

template <class X, class W, bool kAligned>
__global__ void __launch_bounds__(kNarrowThreads)
    narrow_backward_kernel(const Wider<X, W>* grad, std::int64_t grad_stride, const X* x,
                           std::int64_t x_stride, const W* weight, const float* inverse_rms,
                           const X* grad_sum, X* grad_x, float* parts, std::int64_t rows,
                           std::int64_t width) {
  __shared__ float of_rows[kNarrowThreads * kVector];
  const int lanes = lanes_of(width), lane = static_cast<int>(threadIdx.x) % lanes;
  const int together = kNarrowThreads / lanes, own = static_cast<int>(threadIdx.x) / lanes;
  const std::int64_t first = lane * kVector;
  float w[kVector], sums[kVector] = {};
  load_some<kAligned>(weight, first, width, w);
  for (std::int64_t base = static_cast<std::int64_t>(blockIdx.x) * together; base < rows;
       base += static_cast<std::int64_t>(gridDim.x) * together) {
    const std::int64_t row = base + own, end = row < rows ? width : 0;
    const float inverse = row < rows ? inverse_rms[row] : 0;
    float values[kVector], g[kVector], added[kVector] = {};
    load_some<kAligned>(x + row * x_stride, first, end, values);
    load_some<kAligned>(grad + row * grad_stride, first, end, g);
    if (grad_sum != nullptr) load_some<kAligned>(grad_sum + row * width, first, end, added);
    float sum = 0;
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      sums[i] += g[i] * values[i] * inverse;
      g[i] *= w[i];
      sum += g[i] * values[i];
    }
    const float pull = rms_norm::pull(row_sum(sum, lanes), width, inverse);
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      g[i] = rms_norm::gradient(g[i], values[i], inverse, pull);
      if (grad_sum != nullptr) g[i] = widened(rounded<X>(g[i])) + added[i];
    }
    store_some<kAligned>(grad_x + row * width, first, end, g);
  }
#pragma unroll
  for (int i = 0; i < kVector; ++i) of_rows[(own * lanes + lane) * kVector + i] = sums[i];
  __syncthreads();
  if (threadIdx.x >= width) return;
  float sum = 0;
  for (int other = 0; other < together; ++other) sum += of_rows[other * lanes * kVector + threadIdx.x];
  parts[blockIdx.x * width + threadIdx.x] = sum;
}

// Blocks of 32 columns times 8 groups of parts, with one order of additions for each column.
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

// Calls f(x's type, weight's type).
template <class F>
void with_elements(const RmsNormRows& in, const F& f) {
  with_f32_or_bf16(in.x_element,
                   [&](auto x) { with_f32_or_bf16(in.weight_element, [&](auto w) { f(x, w); }); });
}
// Calls f(x's type, weight's type, pieces of a thread).
template <class F>
void with_types(const RmsNormRows& in, const F& f) {
  with_elements(in, [&](auto x, auto w) {
    if (in.width <= kMaxThreads * kVector) return f(x, w, std::integral_constant<int, 1>());
    f(x, w, std::integral_constant<int, 2>());
  });
}

unsigned threads_for(std::int64_t width, int pieces) {
  const std::int64_t threads = (width + pieces * kVector - 1) / (pieces * kVector);
  return static_cast<unsigned>((threads + kWarp - 1) / kWarp * kWarp);
}

bool aligned_rows(const RmsNormRows& in) {
  return in.width % kVector == 0 && in.x_stride % kVector == 0 && aligned(in.x) && aligned(in.weight);
}

void wide_backward(const RmsNormRows& in, bool all_aligned, std::int64_t count, const void* grad,
                   std::int64_t grad_stride, const float* inverse_rms, const void* grad_sum, void* grad_x,
                   float* parts, cudaStream_t stream) {
  with_types(in, [&](auto x, auto w, auto pieces) {
    with_alignment(all_aligned, [&](auto whole) {
      launch(&backward_kernel<decltype(x), decltype(w), pieces(), whole()>, static_cast<unsigned>(count),
             threads_for(in.width, pieces()), stream, grad, grad_stride, in.x, in.x_stride, in.weight,
             inverse_rms, grad_sum, grad_x, parts, in.rows, in.width);
    });
  });
}

}  // namespace

void rms_norm(const RmsNormRows& in, const void* residual, void* sum, float eps, void* y, float* inverse_rms,
              cudaStream_t stream) {
  const bool all_aligned = aligned_rows(in) && aligned(residual) && aligned(sum) && aligned(y);
  if (in.width <= kNarrow) {
    const unsigned blocks = blocks_for(in.rows, kNarrowThreads / lanes_of(in.width));
    return with_elements(in, [&](auto x, auto w) {
      with_alignment(all_aligned, [&](auto whole) {
        launch(&narrow_forward_kernel<decltype(x), decltype(w), whole()>, blocks, kNarrowThreads, stream,
               in.x, in.x_stride, residual, sum, in.weight, y, inverse_rms, in.rows, in.width, eps);
      });
    });
  }
  with_types(in, [&](auto x, auto w, auto pieces) {
    with_alignment(all_aligned, [&](auto whole) {
      launch(&forward_kernel<decltype(x), decltype(w), pieces(), whole()>, static_cast<unsigned>(in.rows),
             threads_for(in.width, pieces()), stream, in.x, in.x_stride, residual, sum, in.weight, y,
             inverse_rms, in.width, eps);
    });
  });
}

std::int64_t rms_norm_parts(std::int64_t rows, std::int64_t width) {
  const std::int64_t together = width <= kNarrow ? kNarrowThreads / lanes_of(width) : 1;
  return std::min((rows + together - 1) / together, kMaxParts);
}

void rms_norm_backward(const RmsNormRows& in, const void* grad, std::int64_t grad_stride,
                       const float* inverse_rms, const void* grad_sum, void* grad_x, float* parts,
                       float* grad_weight, cudaStream_t stream) {
  const bool all_aligned = aligned_rows(in) && grad_stride % kVector == 0 && aligned(grad) &&
                           aligned(grad_sum) && aligned(grad_x) && aligned(parts);
  const std::int64_t count = rms_norm_parts(in.rows, in.width);
  if (in.width <= kNarrow) {
    with_elements(in, [&](auto x, auto w) {
      with_alignment(all_aligned, [&](auto whole) {
        launch(&narrow_backward_kernel<decltype(x), decltype(w), whole()>, static_cast<unsigned>(count),
               kNarrowThreads, stream, grad, grad_stride, in.x, in.x_stride, in.weight, inverse_rms, grad_sum,
               grad_x, parts, in.rows, in.width);
      });
    });
  } else {
    wide_backward(in, all_aligned, count, grad, grad_stride, inverse_rms, grad_sum, grad_x, parts, stream);
  }
  launch(&sum_kernel, blocks_for(in.width, kColumns), kColumns * kGroups, stream, parts, count, in.width,
         grad_weight);
}

}  // namespace rondo::cuda
