// Many tensors share a launch. A block takes a chunk of a tensor, a thread eight consecutive
// elements at a time. Every thread computes the factors from the scalars, which costs less than
// another launch. The eight elements are a group of draws of stochastic rounding, unless a shard's
// borders divide groups: then a thread takes one element at a time, which is slower.
// Compiled without contraction, for the bits of the CPU.
#include <type_traits>

#include "ops/adamw/adamw_cuda.h"
#include "ops/kernel/arithmetic.h"
#include "ops/kernel/kernel_launch.cuh"
#include "ops/kernel/tensor_chunks.cuh"
#include "ops/kernel/vectors.cuh"
#include "ops/random/rounding.cuh"

namespace rondo::cuda {
namespace {

using adam::kChunk;

constexpr int kThreads = 256;
constexpr int kBlocksOfProcessor = 4;  // keeps a thread within 64 registers

template <class T, class Moment, class Gradient, class Rounding, class Tensor>
__global__ void __launch_bounds__(kThreads, kBlocksOfProcessor)
    update_kernel(const TensorTable<Tensor> table, const AdamWScalars scalars, const AdamWOptions options) {
  if (*scalars.found_inf != 0) return;
  const auto chunk = static_cast<std::int32_t>(blockIdx.x);
  const int tensor = table.tensor_of(chunk);
  const std::int64_t begin = (chunk - table.first_chunk[tensor]) * kChunk;
  const std::int64_t count = table.tensors[tensor].count;
  const std::int64_t end = count - begin < kChunk ? count : begin + kChunk;
  T* const parameter = static_cast<T*>(table.tensors[tensor].parameter);
  Moment* const exp_avg = static_cast<Moment*>(table.tensors[tensor].exp_avg);
  Moment* const exp_avg_sq = static_cast<Moment*>(table.tensors[tensor].exp_avg_sq);
  const Gradient* const gradient = static_cast<const Gradient*>(table.tensors[tensor].gradient);
  const adam::Factors factors =
      adam::factors(options, *scalars.step, *scalars.learning_rate, *scalars.gradient_scale);
  const FloatDivisor scale(factors.gradient_scale);
  const Rounding rounding(table.tensors[tensor], *scalars.step);
  const bool wide = aligned(parameter) && aligned(exp_avg) && aligned(exp_avg_sq) && aligned(gradient) &&
                    rounding.is_aligned();
  // end of the full vectors
  const std::int64_t whole = wide ? end - (end - begin) % kVector : begin;
  for (std::int64_t i = begin + threadIdx.x * kVector; i < whole; i += kThreads * kVector) {
    float p[kVector], m[kVector], v[kVector], g[kVector];
    load_some<true>(parameter, i, whole, p);
    load_some<true>(exp_avg, i, whole, m);
    load_some<true>(exp_avg_sq, i, whole, v);
    load_some<true>(gradient, i, whole, g);
    const std::int64_t index = rounding.index(i);
    if (factors.gradient_scale != 1) {  // clipped
#pragma unroll
      for (int k = 0; k < kVector; ++k) g[k] = scale.divide(g[k]);
    }
#pragma unroll
    for (int k = 0; k < kVector; ++k) {
      const adam::Element now = adam::updated(factors, {p[k], m[k], v[k]}, g[k]);
      p[k] = now.parameter, m[k] = now.exp_avg, v[k] = now.exp_avg_sq;
    }
    rounding.store_eight(adam::kParameter, parameter, i, index, p);
    rounding.store_eight(adam::kExpAvg, exp_avg, i, index, m);
    rounding.store_eight(adam::kExpAvgSq, exp_avg_sq, i, index, v);
  }
  for (std::int64_t i = whole + threadIdx.x; i < end; i += kThreads) {
    const adam::Element now =
        adam::updated(factors, {widened(parameter[i]), widened(exp_avg[i]), widened(exp_avg_sq[i])},
                      widened(gradient[i]) / factors.gradient_scale);
    const std::int64_t index = rounding.index(i);
    rounding.store(adam::kParameter, parameter, i, index, now.parameter);
    rounding.store(adam::kExpAvg, exp_avg, i, index, now.exp_avg);
    rounding.store(adam::kExpAvgSq, exp_avg_sq, i, index, now.exp_avg_sq);
  }
}
static_assert(kChunk % (kThreads * kVector) == 0, "a thread's neighbours lie in one chunk");

template <class Rounding, class Tensor>
void update(const UpdatedElements& elements, std::span<const Tensor> tensors, const AdamWScalars& scalars,
            const AdamWOptions& options, cudaStream_t stream) {
  for_each_table(tensors, kChunk, [&](const TensorTable<Tensor>& table, std::int32_t chunks) {
    if (chunks == 0) return;
    const auto launch_with = [&](auto type, auto moment, auto gradient) {
      launch(&update_kernel<decltype(type), decltype(moment), decltype(gradient), Rounding, Tensor>,
             static_cast<unsigned>(chunks), kThreads, stream, table, scalars, options);
    };
    if (elements.parameter == Element::bf16)
      return launch_with(__nv_bfloat16(), __nv_bfloat16(), __nv_bfloat16());
    with_f32_or_bf16(elements.gradient, [&](auto gradient) {
      if (elements.moments == Element::bf16) return launch_with(float(), __nv_bfloat16(), gradient);
      if constexpr (std::is_same_v<Rounding, ToNearest>) launch_with(float(), float(), gradient);
    });
  });
}

}  // namespace

void adamw(const UpdatedElements& elements, std::span<const UpdatedTensor> tensors,
           const AdamWScalars& scalars, const AdamWOptions& options, cudaStream_t stream) {
  update<ToNearest>(elements, tensors, scalars, options, stream);
}
void adamw(const UpdatedElements& elements, std::span<const RoundedTensor> tensors,
           const AdamWScalars& scalars, const AdamWOptions& options, cudaStream_t stream) {
  update<Stochastic>(elements, tensors, scalars, options, stream);
}

}  // namespace rondo::cuda
