#include <ATen/ops/addmm.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/library.h>

#include "ops/linear_cross_entropy/linear_cross_entropy.h"

namespace rondo {
namespace {

using at::Tensor;

// bf16 products are added to the sum in f32, without rounding.
void add_product(const Tensor& sum_VD, const Tensor& logits_RV, const Tensor& h_RD, int already) {
  Tensor sum = sum_VD;
  if (h_RD.scalar_type() == sum.scalar_type()) {
    at::addmm_out(sum, sum, logits_RV.t(), h_RD, already);
  } else {
    at::addmm_out(sum, sum, logits_RV.t(), h_RD, sum.scalar_type(), already);
  }
}

constexpr ChunkKernels kOnCuda{kCrossEntropyOnCuda, &add_product};

}  // namespace

TORCH_LIBRARY_IMPL(rondo, CUDA, m) {
  m.impl("linear_cross_entropy", [](const Tensor& h, const Tensor& weight, const Tensor& labels,
                                    const Tensor& gradient, std::int64_t ignored, std::int64_t chunk_rows) {
    const c10::cuda::CUDAGuard guard(h.device());
    return linear_cross_entropy(kOnCuda, h, weight, labels, gradient, ignored, chunk_rows);
  });
  m.impl("linear_cross_entropy_losses", [](const Tensor& h, const Tensor& weight, const Tensor& labels,
                                           std::int64_t ignored, std::int64_t chunk_rows) {
    const c10::cuda::CUDAGuard guard(h.device());
    return linear_cross_entropy_losses(kOnCuda, h, weight, labels, ignored, chunk_rows);
  });
  m.impl("linear_cross_entropy_statistics",
         [](const Tensor& h, const Tensor& weight, const Tensor& place, std::int64_t chunk_rows) {
           const c10::cuda::CUDAGuard guard(h.device());
           return linear_cross_entropy_statistics(kOnCuda, h, weight, place, chunk_rows);
         });
  m.impl(
      "linear_cross_entropy_gradients",
      [](const Tensor& h, const Tensor& weight, const Tensor& place, const Tensor& largest, const Tensor& sum,
         const Tensor& gradient, const Tensor& place_gradient, std::int64_t chunk_rows) {
        const c10::cuda::CUDAGuard guard(h.device());
        return linear_cross_entropy_gradients(kOnCuda, h, weight, place, largest, sum, gradient,
                                              place_gradient, chunk_rows);
      });
}

}  // namespace rondo
