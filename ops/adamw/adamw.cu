// Many tensors share a launch. A block takes a chunk of a tensor, a thread eight consecutive
// elements at a time. Every thread computes the factors from the scalars, which costs less than
// another launch. Compiled without contraction, for the bits of the CPU.
#include "ops/adamw/adamw_cuda.h"
#include "ops/kernel/kernel_launch.cuh"
#include "ops/kernel/tensor_chunks.cuh"
#include "ops/kernel/vectors.cuh"

namespace rondo::cuda {
namespace {

using adam::kChunk;
using Table = TensorTable<UpdatedTensor>;

constexpr int kThreads = 256;

template <class T, class Moment, class Gradient>
__global__ void __launch_bounds__(kThreads)
    update_kernel(const Table table, const AdamWScalars scalars, const AdamWOptions options) {
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
  const bool wide = aligned(parameter) && aligned(exp_avg) && aligned(exp_avg_sq) && aligned(gradient);
  // end of the full vectors
  const std::int64_t whole = wide ? end - (end - begin) % kVector : begin;
  for (std::int64_t i = begin + threadIdx.x * kVector; i < whole; i += kThreads * kVector) {
    float p[kVector], m[kVector], v[kVector], g[kVector];
    load_some<true>(parameter, i, whole, p);
    load_some<true>(exp_avg, i, whole, m);
    load_some<true>(exp_avg_sq, i, whole, v);
    load_some<true>(gradient, i, whole, g);
    // The scale is 1 unless the step is clipped. A division takes about fifteen instructions, a
    // quarter of an update.
    if (factors.gradient_scale != 1) {
#pragma unroll
      for (int k = 0; k < kVector; ++k) g[k] = g[k] / factors.gradient_scale;
    }
#pragma unroll
    for (int k = 0; k < kVector; ++k) {
      const adam::Element now = adam::updated(factors, {p[k], m[k], v[k]}, g[k]);
      p[k] = now.parameter, m[k] = now.exp_avg, v[k] = now.exp_avg_sq;
    }
    store_some<true>(parameter, i, whole, p);
    store_some<true>(exp_avg, i, whole, m);
    store_some<true>(exp_avg_sq, i, whole, v);
  }
  for (std::int64_t i = whole + threadIdx.x; i < end; i += kThreads) {
    const adam::Element now =
        adam::updated(factors, {widened(parameter[i]), widened(exp_avg[i]), widened(exp_avg_sq[i])},
                      widened(gradient[i]) / factors.gradient_scale);
    parameter[i] = rounded<T>(now.parameter);
    exp_avg[i] = rounded<Moment>(now.exp_avg);
    exp_avg_sq[i] = rounded<Moment>(now.exp_avg_sq);
  }
}
static_assert(kChunk % (kThreads * kVector) == 0, "a thread's neighbours lie in one chunk");

}  // namespace

void adamw(const UpdatedElements& elements, std::span<const UpdatedTensor> tensors,
           const AdamWScalars& scalars, const AdamWOptions& options, cudaStream_t stream) {
  for_each_table(tensors, kChunk, [&](const Table& table, std::int32_t chunks) {
    if (chunks == 0) return;
    const auto update = [&](auto type, auto moment, auto gradient) {
      launch(&update_kernel<decltype(type), decltype(moment), decltype(gradient)>,
             static_cast<unsigned>(chunks), kThreads, stream, table, scalars, options);
    };
    if (elements.parameter == Element::bf16) return update(__nv_bfloat16(), __nv_bfloat16(), __nv_bfloat16());
    with_f32_or_bf16(elements.moments, [&](auto moment) {
      with_f32_or_bf16(elements.gradient, [&](auto gradient) { update(float(), moment, gradient); });
    });
  });
}

}  // namespace rondo::cuda
