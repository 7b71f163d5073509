// Many tensors share a launch. A block takes a chunk of a tensor, a thread eight consecutive
// elements at a time, which are a group of draws of stochastic rounding, unless a shard's borders
// divide groups (ops/adamw/adamw.cu). Compiled without contraction, for the bits of the CPU.
#include <type_traits>

#include "ops/kernel/arithmetic.h"
#include "ops/kernel/kernel_launch.cuh"
#include "ops/kernel/tensor_chunks.cuh"
#include "ops/kernel/vectors.cuh"
#include "ops/muon/muon_cuda.h"
#include "ops/random/rounding.cuh"

namespace rondo::cuda {
namespace {

using muon::kChunk;

constexpr int kThreads = 256;
constexpr int kBlocksOfProcessor = 4;  // keeps a thread within 64 registers

// The elements of a tensor that a block takes.
struct Part {
  int tensor;
  std::int64_t begin, end;
};
template <class Tensor>
__device__ Part part_of_block(const TensorTable<Tensor>& table) {
  const auto chunk = static_cast<std::int32_t>(blockIdx.x);
  const int tensor = table.tensor_of(chunk);
  const std::int64_t begin = (chunk - table.first_chunk[tensor]) * kChunk;
  const std::int64_t count = table.tensors[tensor].count;
  return {tensor, begin, count - begin < kChunk ? count : begin + kChunk};
}
// Returns the end of the full vectors.
__device__ std::int64_t end_of_vectors(const Part& part, bool wide) {
  return wide ? part.end - (part.end - part.begin) % kVector : part.begin;
}

template <class T, class Gradient, class Update, class Rounding, class Tensor>
__global__ void __launch_bounds__(kThreads, kBlocksOfProcessor)
    momentum_kernel(const TensorTable<Tensor> table, const MomentumScalars scalars,
                    const MuonOptions options) {
  const Part part = part_of_block(table);
  T* const momentum = static_cast<T*>(table.tensors[part.tensor].momentum);
  const Gradient* const gradient = static_cast<const Gradient*>(table.tensors[part.tensor].gradient);
  Update* const update = static_cast<Update*>(table.tensors[part.tensor].update);
  if (*scalars.found_inf != 0) {
#pragma unroll 1
    for (std::int64_t i = part.begin + threadIdx.x; i < part.end; i += kThreads)
      update[i] = rounded<Update>(0.0f);
    return;
  }
  const muon::MomentumFactors<float> factors(options, *scalars.gradient_scale);
  const FloatDivisor scale(factors.gradient_scale);
  const Rounding rounding(table.tensors[part.tensor], *scalars.step);
  const std::int64_t whole = end_of_vectors(
      part, aligned(momentum) && aligned(gradient) && aligned(update) && rounding.is_aligned());
  for (std::int64_t i = part.begin + threadIdx.x * kVector; i < whole; i += kThreads * kVector) {
    float m[kVector], g[kVector];
    load_some<true>(momentum, i, whole, m);
    load_some<true>(gradient, i, whole, g);
    const std::int64_t index = rounding.index(i);
    if (factors.gradient_scale != 1) {  // clipped
#pragma unroll
      for (int k = 0; k < kVector; ++k) g[k] = scale.divide(g[k]);
    }
#pragma unroll
    for (int k = 0; k < kVector; ++k) {
      const muon::Accumulated<float> now = muon::accumulated(factors, m[k], g[k]);
      m[k] = now.momentum, g[k] = now.update;
    }
    rounding.store_eight(muon::kMomentum, momentum, i, index, m);
    store_some<true>(update, i, whole, g);
  }
#pragma unroll 1
  for (std::int64_t i = whole + threadIdx.x; i < part.end; i += kThreads) {
    const muon::Accumulated<float> now =
        muon::accumulated(factors, widened(momentum[i]), widened(gradient[i]) / factors.gradient_scale);
    rounding.store(muon::kMomentum, momentum, i, rounding.index(i), now.momentum);
    update[i] = rounded<Update>(now.update);
  }
}

template <class T, class Update, class Rounding, class Tensor>
__global__ void __launch_bounds__(kThreads, kBlocksOfProcessor)
    apply_kernel(const TensorTable<Tensor> table, const AppliedScalars scalars, const double weight_decay) {
  if (*scalars.found_inf != 0) return;
  const Part part = part_of_block(table);
  T* const parameter = static_cast<T*>(table.tensors[part.tensor].parameter);
  const Update* const update = static_cast<const Update*>(table.tensors[part.tensor].update);
  const muon::ApplyFactors<float> factors(weight_decay, table.tensors[part.tensor].scale,
                                          *scalars.learning_rate);
  const Rounding rounding(table.tensors[part.tensor], *scalars.step);
  const std::int64_t whole =
      end_of_vectors(part, aligned(parameter) && aligned(update) && rounding.is_aligned());
  for (std::int64_t i = part.begin + threadIdx.x * kVector; i < whole; i += kThreads * kVector) {
    float p[kVector], u[kVector];
    load_some<true>(parameter, i, whole, p);
    load_some<true>(update, i, whole, u);
#pragma unroll
    for (int k = 0; k < kVector; ++k) p[k] = muon::applied(factors, p[k], u[k]);
    rounding.store_eight(muon::kParameter, parameter, i, rounding.index(i), p);
  }
#pragma unroll 1
  for (std::int64_t i = whole + threadIdx.x; i < part.end; i += kThreads)
    rounding.store(muon::kParameter, parameter, i, rounding.index(i),
                   muon::applied(factors, widened(parameter[i]), widened(update[i])));
}
static_assert(kChunk % (kThreads * kVector) == 0, "a thread's neighbours lie in one chunk");
// compiler/ops/optimizer.cpp counts launches by these.
static_assert(TensorTable<MomentumTensor>::kMax == 110 && TensorTable<AppliedTensor>::kMax == 110);
static_assert(TensorTable<RoundedMomentumTensor>::kMax == 52 &&
              TensorTable<RoundedAppliedTensor>::kMax == 52);

// Calls body(T()) with the type of a state. Only bf16 is rounded stochastically.
template <class Rounding, class Body>
void with_state(Element element, const Body& body) {
  if (element == Element::bf16) return body(__nv_bfloat16());
  if constexpr (std::is_same_v<Rounding, ToNearest>) body(float());
}

// Calls launch_one(kernel parameters' table, blocks) for all tensors.
template <class Tensor, class LaunchOne>
void launch_tables(std::span<const Tensor> tensors, const LaunchOne& launch_one) {
  for_each_table(tensors, kChunk, [&](const TensorTable<Tensor>& table, std::int32_t chunks) {
    if (chunks != 0) launch_one(table, static_cast<unsigned>(chunks));
  });
}

template <class Rounding, class Tensor>
void accumulate(const MomentumElements& elements, std::span<const Tensor> tensors,
                const MomentumScalars& scalars, const MuonOptions& options, cudaStream_t stream) {
  launch_tables(tensors, [&](const TensorTable<Tensor>& table, unsigned blocks) {
    with_state<Rounding>(elements.momentum, [&](auto type) {
      with_f32_or_bf16(elements.gradient, [&](auto gradient) {
        with_f32_or_bf16(elements.update, [&](auto update) {
          launch(&momentum_kernel<decltype(type), decltype(gradient), decltype(update), Rounding, Tensor>,
                 blocks, kThreads, stream, table, scalars, options);
        });
      });
    });
  });
}

template <class Rounding, class Tensor>
void apply(const AppliedElements& elements, std::span<const Tensor> tensors, const AppliedScalars& scalars,
           double weight_decay, cudaStream_t stream) {
  launch_tables(tensors, [&](const TensorTable<Tensor>& table, unsigned blocks) {
    with_state<Rounding>(elements.parameter, [&](auto type) {
      with_f32_or_bf16(elements.update, [&](auto update) {
        launch(&apply_kernel<decltype(type), decltype(update), Rounding, Tensor>, blocks, kThreads, stream,
               table, scalars, weight_decay);
      });
    });
  });
}

}  // namespace

void muon_momentum(const MomentumElements& elements, std::span<const MomentumTensor> tensors,
                   const MomentumScalars& scalars, const MuonOptions& options, cudaStream_t stream) {
  accumulate<ToNearest>(elements, tensors, scalars, options, stream);
}
void muon_momentum(const MomentumElements& elements, std::span<const RoundedMomentumTensor> tensors,
                   const MomentumScalars& scalars, const MuonOptions& options, cudaStream_t stream) {
  accumulate<Stochastic>(elements, tensors, scalars, options, stream);
}

void muon_apply(const AppliedElements& elements, std::span<const AppliedTensor> tensors,
                const AppliedScalars& scalars, double weight_decay, cudaStream_t stream) {
  apply<ToNearest>(elements, tensors, scalars, weight_decay, stream);
}
void muon_apply(const AppliedElements& elements, std::span<const RoundedAppliedTensor> tensors,
                const AppliedScalars& scalars, double weight_decay, cudaStream_t stream) {
  apply<Stochastic>(elements, tensors, scalars, weight_decay, stream);
}

}  // namespace rondo::cuda
