#include <cuda_bf16.h>

#include "compiler/kernels/cross_entropy_rows.h"
#include "compiler/kernels/cross_entropy_rows_cuda.h"

namespace rondo::cuda {
namespace {

constexpr int kThreads = 512, kWarps = kThreads / 32;

__device__ float widened(float x) { return x; }
__device__ float widened(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ void narrow(float x, float& to) { to = x; }
__device__ void narrow(float x, __nv_bfloat16& to) { to = __float2bfloat16_rn(x); }

// What one instruction loads.
template <class Logit>
struct alignas(16) Pack {
  static constexpr int kLogits = 16 / sizeof(Logit);
  Logit logits[kLogits];
};

template <class Logit>
__device__ bool is_aligned(const Logit* row) {
  return reinterpret_cast<std::uintptr_t>(row) % sizeof(Pack<Logit>) == 0;
}

// Packs of a row, and the index of the first logit behind them; none where the row lies askew.
template <class Logit>
__device__ std::int64_t packs_of(const Logit* row, std::int64_t classes) {
  return is_aligned(row) ? classes / Pack<Logit>::kLogits : 0;
}

__device__ RowStatistics<float> merged_with(RowStatistics<float> mine, int lane_mask) {
  RowStatistics<float> other;
  other.largest = __shfl_xor_sync(0xffffffffu, mine.largest, lane_mask);
  other.sum = __shfl_xor_sync(0xffffffffu, mine.sum, lane_mask);
  mine.add(other);
  return mine;
}

// Of the whole block, in every thread.
__device__ RowStatistics<float> merged(RowStatistics<float> mine) {
  __shared__ float largest[kWarps], sums[kWarps];
  for (int mask = 16; mask > 0; mask /= 2) mine = merged_with(mine, mask);
  if (threadIdx.x % 32 == 0) {
    largest[threadIdx.x / 32] = mine.largest;
    sums[threadIdx.x / 32] = mine.sum;
  }
  __syncthreads();
  RowStatistics<float> all;
  for (int warp = 0; warp < kWarps; ++warp) {
    RowStatistics<float> one;
    one.largest = largest[warp];
    one.sum = sums[warp];
    all.add(one);
  }
  return all;
}

template <class Logit>
__device__ RowStatistics<float> statistics_of(const Logit* row, std::int64_t classes) {
  constexpr int kLogits = Pack<Logit>::kLogits;
  const auto* packs = reinterpret_cast<const Pack<Logit>*>(row);
  const std::int64_t count = packs_of(row, classes);
  RowStatistics<float> mine;
  std::int64_t i = threadIdx.x;
  for (; i + kThreads < count; i += 2 * kThreads) {  // two loads under way
    const Pack<Logit> first = packs[i], second = packs[i + kThreads];
#pragma unroll
    for (int k = 0; k < kLogits; ++k) mine.add(widened(first.logits[k]));
#pragma unroll
    for (int k = 0; k < kLogits; ++k) mine.add(widened(second.logits[k]));
  }
  if (i < count) {
    const Pack<Logit> last = packs[i];
#pragma unroll
    for (int k = 0; k < kLogits; ++k) mine.add(widened(last.logits[k]));
  }
  for (std::int64_t v = count * kLogits + threadIdx.x; v < classes; v += kThreads) mine.add(widened(row[v]));
  return merged(mine);
}

template <class Logit>
__device__ float logit_at(const Logit* row, std::int64_t place, std::int64_t classes) {
  return is_class(place, classes) ? widened(row[place]) : NAN;
}

template <class Logit>
struct Gradient {
  float largest, scale, place_gradient;
  std::int64_t place;

  __device__ void overwrite(Logit& logit, std::int64_t v) const {
    const float gradient = logit_gradient(widened(logit), largest, scale);
    narrow(v == place ? gradient - place_gradient : gradient, logit);
  }
  __device__ void overwrite_row(Logit* row, std::int64_t classes) const {
    constexpr int kLogits = Pack<Logit>::kLogits;
    auto* packs = reinterpret_cast<Pack<Logit>*>(row);
    const std::int64_t count = packs_of(row, classes);
    for (std::int64_t i = threadIdx.x; i < count; i += kThreads) {
      Pack<Logit> pack = packs[i];
#pragma unroll
      for (int k = 0; k < kLogits; ++k) overwrite(pack.logits[k], i * kLogits + k);
      packs[i] = pack;
    }
    for (std::int64_t v = count * kLogits + threadIdx.x; v < classes; v += kThreads) overwrite(row[v], v);
  }
};

template <class Logit>
__device__ void fill_with_zeros(Logit* row, std::int64_t classes) {
  constexpr int kLogits = Pack<Logit>::kLogits;
  const std::int64_t count = packs_of(row, classes);
  for (std::int64_t i = threadIdx.x; i < count; i += kThreads)
    reinterpret_cast<uint4*>(row)[i] = make_uint4(0, 0, 0, 0);
  for (std::int64_t v = count * kLogits + threadIdx.x; v < classes; v += kThreads) narrow(0, row[v]);
}

template <class Logit>
__global__ void __launch_bounds__(kThreads)
    losses_kernel(Logit* logits, std::int64_t classes, const std::int64_t* labels, std::int64_t ignored,
                  const float* gradient, float* losses) {
  Logit* const row = logits + blockIdx.x * classes;
  const std::int64_t label = labels[blockIdx.x];
  if (label == ignored) {
    if (threadIdx.x == 0) losses[blockIdx.x] = 0;
    if (gradient != nullptr) fill_with_zeros(row, classes);
    return;
  }
  // Read before the threads meet in statistics_of, behind which the row is overwritten.
  const float of_label = threadIdx.x == 0 ? logit_at(row, label, classes) : 0;
  const RowStatistics<float> statistics = statistics_of(row, classes);
  if (threadIdx.x == 0) losses[blockIdx.x] = row_loss(statistics, of_label);
  if (gradient == nullptr) return;
  const Gradient<Logit> of_row{statistics.largest, row_scale(*gradient, statistics.sum), *gradient, label};
  of_row.overwrite_row(row, classes);
}

template <class Logit>
__global__ void __launch_bounds__(kThreads)
    statistics_kernel(const Logit* logits, std::int64_t classes, const std::int64_t* places, float* largest,
                      float* sums, float* logits_at_places) {
  const Logit* const row = logits + blockIdx.x * classes;
  const RowStatistics<float> statistics = statistics_of(row, classes);
  if (threadIdx.x != 0) return;
  largest[blockIdx.x] = statistics.largest;
  sums[blockIdx.x] = statistics.sum;
  logits_at_places[blockIdx.x] = logit_at(row, places[blockIdx.x], classes);
}

template <class Logit>
__global__ void __launch_bounds__(kThreads)
    gradients_kernel(Logit* logits, std::int64_t classes, const std::int64_t* places, const float* largest,
                     const float* sums, const float* gradients, const float* place_gradients) {
  const unsigned r = blockIdx.x;
  const Gradient<Logit> of_row{largest[r], row_scale(gradients[r], sums[r]), place_gradients[r], places[r]};
  of_row.overwrite_row(logits + r * classes, classes);
}

template <class Launch>
cudaError_t launched(const LogitRows& of, Launch launch) {
  if (of.rows == 0 || of.classes == 0) return cudaSuccess;
  if (of.is_bf16) {
    launch(static_cast<__nv_bfloat16*>(of.logits));
  } else {
    launch(static_cast<float*>(of.logits));
  }
  return cudaGetLastError();
}

}  // namespace

cudaError_t cross_entropy_losses(const LogitRows& of, const std::int64_t* labels, std::int64_t ignored,
                                 const float* gradient, float* losses, cudaStream_t stream) {
  return launched(of, [&](auto* logits) {
    losses_kernel<<<static_cast<unsigned>(of.rows), kThreads, 0, stream>>>(logits, of.classes, labels,
                                                                           ignored, gradient, losses);
  });
}

cudaError_t cross_entropy_statistics(const LogitRows& of, const std::int64_t* places, float* largest,
                                     float* sums, float* logits_at_places, cudaStream_t stream) {
  return launched(of, [&](auto* logits) {
    statistics_kernel<<<static_cast<unsigned>(of.rows), kThreads, 0, stream>>>(
        logits, of.classes, places, largest, sums, logits_at_places);
  });
}

cudaError_t cross_entropy_gradients(const LogitRows& of, const std::int64_t* places, const float* largest,
                                    const float* sums, const float* gradients, const float* place_gradients,
                                    cudaStream_t stream) {
  return launched(of, [&](auto* logits) {
    gradients_kernel<<<static_cast<unsigned>(of.rows), kThreads, 0, stream>>>(
        logits, of.classes, places, largest, sums, gradients, place_gradients);
  });
}

}  // namespace rondo::cuda
