// One block per row, in two sweeps: statistics, with loads of 16 bytes, then gradients. One block
// sums all losses in f64.
#include "ops/cross_entropy/cross_entropy_cuda.h"
#include "ops/cross_entropy/cross_entropy_math.h"
#include "ops/kernel/element.cuh"
#include "ops/kernel/kernel_launch.cuh"
#include "ops/kernel/vectors.cuh"

namespace rondo::cuda {
namespace {

constexpr int kThreads = 512, kWarps = kThreads / kWarp;

// The logits that one instruction loads.
template <class Logit>
using Logits = Pack<Logit, kWide<Logit>>;

// Returns the number of packs of a row; 0 if the row is not aligned.
template <class Logit>
__device__ std::int64_t packs_of(const Logit* row, std::int64_t classes) {
  return aligned(row) ? classes / kWide<Logit> : 0;
}

__device__ RowStatistics<float> merged_with(RowStatistics<float> mine, int lane_mask) {
  RowStatistics<float> other;
  other.largest = __shfl_xor_sync(kAllLanes, mine.largest, lane_mask);
  other.sum = __shfl_xor_sync(kAllLanes, mine.sum, lane_mask);
  mine.add(other);
  return mine;
}

// Returns the statistics of the whole block in every thread.
__device__ RowStatistics<float> merged(RowStatistics<float> mine) {
  __shared__ float largest[kWarps], sums[kWarps];
  for (int mask = kWarp / 2; mask > 0; mask /= 2) mine = merged_with(mine, mask);
  if (threadIdx.x % kWarp == 0) {
    largest[threadIdx.x / kWarp] = mine.largest;
    sums[threadIdx.x / kWarp] = mine.sum;
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
  constexpr int kLogits = kWide<Logit>;
  const auto* packs = reinterpret_cast<const Logits<Logit>*>(row);
  const std::int64_t count = packs_of(row, classes);
  RowStatistics<float> mine;
  std::int64_t i = threadIdx.x;
  for (; i + kThreads < count; i += 2 * kThreads) {  // two concurrent loads
    const Logits<Logit> first = packs[i], second = packs[i + kThreads];
#pragma unroll
    for (int k = 0; k < kLogits; ++k) mine.add(widened(first.at[k]));
#pragma unroll
    for (int k = 0; k < kLogits; ++k) mine.add(widened(second.at[k]));
  }
  if (i < count) {
    const Logits<Logit> last = packs[i];
#pragma unroll
    for (int k = 0; k < kLogits; ++k) mine.add(widened(last.at[k]));
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

  __device__ Logit at(Logit logit, std::int64_t v) const {
    const float gradient = logit_gradient(widened(logit), largest, scale);
    return rounded<Logit>(v == place ? gradient - place_gradient : gradient);
  }
  // `to` may be `row`.
  __device__ void write_row(const Logit* row, std::int64_t classes, Logit* to) const {
    constexpr int kLogits = kWide<Logit>;
    const auto* packs = reinterpret_cast<const Logits<Logit>*>(row);
    const std::int64_t count = aligned(to) ? packs_of(row, classes) : 0;
    for (std::int64_t i = threadIdx.x; i < count; i += kThreads) {
      Logits<Logit> pack = packs[i];
#pragma unroll
      for (int k = 0; k < kLogits; ++k) pack.at[k] = at(pack.at[k], i * kLogits + k);
      reinterpret_cast<Logits<Logit>*>(to)[i] = pack;
    }
    for (std::int64_t v = count * kLogits + threadIdx.x; v < classes; v += kThreads) to[v] = at(row[v], v);
  }
};

template <class Logit>
__device__ void fill_with_zeros(Logit* row, std::int64_t classes) {
  constexpr int kLogits = kWide<Logit>;
  const std::int64_t count = packs_of(row, classes);
  for (std::int64_t i = threadIdx.x; i < count; i += kThreads)
    reinterpret_cast<Logits<Logit>*>(row)[i] = Logits<Logit>{};
  for (std::int64_t v = count * kLogits + threadIdx.x; v < classes; v += kThreads) row[v] = Logit{};
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
  // Read before the barrier in statistics_of; after it the row is overwritten.
  const float of_label = threadIdx.x == 0 ? logit_at(row, label, classes) : 0;
  const RowStatistics<float> statistics = statistics_of(row, classes);
  if (threadIdx.x == 0) losses[blockIdx.x] = row_loss(statistics, of_label);
  if (gradient == nullptr) return;
  const Gradient<Logit> of_row{statistics.largest, row_scale(*gradient, statistics.sum), *gradient, label};
  of_row.write_row(row, classes, row);
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
  Logit* const row = logits + r * classes;
  const Gradient<Logit> of_row{largest[r], row_scale(gradients[r], sums[r]), place_gradients[r], places[r]};
  of_row.write_row(row, classes, row);
}

template <class Logit>
__global__ void __launch_bounds__(kThreads)
    backward_kernel(const Logit* logits, std::int64_t classes, const float* grad, const std::int64_t* labels,
                    const float* largest, const float* sums, std::int64_t ignored, Logit* grad_logits) {
  const unsigned r = blockIdx.x;
  Logit* const to = grad_logits + r * classes;
  if (labels[r] == ignored) {
    fill_with_zeros(to, classes);
    return;
  }
  const Gradient<Logit> of_row{largest[r], row_scale(*grad, sums[r]), *grad, labels[r]};
  of_row.write_row(logits + r * classes, classes, to);
}

__global__ void __launch_bounds__(kThreads)
    total_kernel(const float* largest, const float* sums, const float* logits_at_labels,
                 const std::int64_t* labels, std::int64_t ignored, std::int64_t rows, float* loss) {
  __shared__ double warps[kWarp];
  double total = 0;
  for (std::int64_t r = threadIdx.x; r < rows; r += kThreads)
    if (labels[r] != ignored)
      total += row_loss(RowStatistics<float>{largest[r], sums[r]}, logits_at_labels[r]);
  total = block_sum(total, warps);
  if (threadIdx.x == 0) *loss = static_cast<float>(total);
}

template <class... Parameters, class... Arguments>
void launch_rows(void (*kernel)(Parameters...), const LogitRows& of, cudaStream_t stream,
                 Arguments... arguments) {
  if (of.rows == 0 || of.classes == 0) return;
  launch(kernel, static_cast<unsigned>(of.rows), kThreads, stream, of.logits, of.classes, arguments...);
}

}  // namespace

void cross_entropy_losses(const LogitRows& of, const std::int64_t* labels, std::int64_t ignored,
                          const float* gradient, float* losses, cudaStream_t stream) {
  with_f32_or_bf16(of.element, [&](auto type) {
    launch_rows(&losses_kernel<decltype(type)>, of, stream, labels, ignored, gradient, losses);
  });
}

void cross_entropy_statistics(const LogitRows& of, const std::int64_t* places, float* largest, float* sums,
                              float* logits_at_places, cudaStream_t stream) {
  with_f32_or_bf16(of.element, [&](auto type) {
    launch_rows(&statistics_kernel<decltype(type)>, of, stream, places, largest, sums, logits_at_places);
  });
}

void cross_entropy_gradients(const LogitRows& of, const std::int64_t* places, const float* largest,
                             const float* sums, const float* gradients, const float* place_gradients,
                             cudaStream_t stream) {
  with_f32_or_bf16(of.element, [&](auto type) {
    launch_rows(&gradients_kernel<decltype(type)>, of, stream, places, largest, sums, gradients,
                place_gradients);
  });
}

void cross_entropy_total(const float* largest, const float* sums, const float* logits_at_labels,
                         const std::int64_t* labels, std::int64_t ignored, std::int64_t rows, float* loss,
                         cudaStream_t stream) {
  launch(&total_kernel, 1, kThreads, stream, largest, sums, logits_at_labels, labels, ignored, rows, loss);
}

void cross_entropy_backward(const float* grad, const LogitRows& of, const std::int64_t* labels,
                            const float* largest, const float* sums, std::int64_t ignored, void* grad_logits,
                            cudaStream_t stream) {
  with_f32_or_bf16(of.element, [&](auto type) {
    launch_rows(&backward_kernel<decltype(type)>, of, stream, grad, labels, largest, sums, ignored,
                grad_logits);
  });
}

}  // namespace rondo::cuda
