// The kernels of linear_cross_entropy over the rows of a chunk on CUDA, and the ops with them.
#include "ops/linear_cross_entropy/linear_cross_entropy_cuda.h"

#include <ATen/ops/addmm.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/library.h>

#include "ops/kernel/launch.h"
#include "ops/linear_cross_entropy/linear_cross_entropy.h"

namespace rondo {
namespace {

using at::Tensor;

cuda::LogitRows operands(const cuda::Launch& launch, const Tensor& logits_RV) {
  TORCH_CHECK(logits_RV.scalar_type() == at::kFloat || logits_RV.scalar_type() == at::kBFloat16,
              "linear_cross_entropy on CUDA is for f32 and bf16");
  return {logits_RV.data_ptr(), launch.element(logits_RV), logits_RV.size(0), logits_RV.size(1)};
}
const std::int64_t* labels_of(const Tensor& labels) { return labels.const_data_ptr<std::int64_t>(); }
const float* numbers_of(const Tensor& x) { return x.defined() ? x.const_data_ptr<float>() : nullptr; }

void losses(const Tensor& logits_RV, const Tensor& labels_R, std::int64_t ignored, const Tensor& gradient,
            const Tensor& losses_R) {
  const cuda::Launch launch(logits_RV, "linear_cross_entropy");
  cuda::cross_entropy_losses(operands(launch, logits_RV), labels_of(labels_R), ignored, numbers_of(gradient),
                             losses_R.data_ptr<float>(), launch.stream());
  launch.check();
}

void statistics(const Tensor& logits_RV, const Tensor& place_R, const Tensor& largest_R, const Tensor& sum_R,
                const Tensor& logit_R) {
  const cuda::Launch launch(logits_RV, "linear_cross_entropy_statistics");
  cuda::cross_entropy_statistics(operands(launch, logits_RV), labels_of(place_R), largest_R.data_ptr<float>(),
                                 sum_R.data_ptr<float>(), logit_R.data_ptr<float>(), launch.stream());
  launch.check();
}

void gradients(const Tensor& logits_RV, const Tensor& place_R, const Tensor& largest_R, const Tensor& sum_R,
               const Tensor& gradient_R, const Tensor& place_gradient_R) {
  const cuda::Launch launch(logits_RV, "linear_cross_entropy_gradients");
  cuda::cross_entropy_gradients(operands(launch, logits_RV), labels_of(place_R), numbers_of(largest_R),
                                numbers_of(sum_R), numbers_of(gradient_R), numbers_of(place_gradient_R),
                                launch.stream());
  launch.check();
}

// bf16 products are added to the sum as they stand in f32.
void add_product(const Tensor& sum_VD, const Tensor& logits_RV, const Tensor& h_RD, int already) {
  Tensor sum = sum_VD;
  if (h_RD.scalar_type() == sum.scalar_type()) {
    at::addmm_out(sum, sum, logits_RV.t(), h_RD, already);
  } else {
    at::addmm_out(sum, sum, logits_RV.t(), h_RD, sum.scalar_type(), already);
  }
}

constexpr CrossEntropyRows kRows{&losses, &statistics, &gradients, &add_product};

}  // namespace

TORCH_LIBRARY_IMPL(rondo, CUDA, m) {
  m.impl("linear_cross_entropy", [](const Tensor& h, const Tensor& weight, const Tensor& labels,
                                    const Tensor& gradient, std::int64_t ignored, std::int64_t chunk_rows) {
    const c10::cuda::CUDAGuard guard(h.device());
    return linear_cross_entropy(kRows, h, weight, labels, gradient, ignored, chunk_rows);
  });
  m.impl("linear_cross_entropy_losses", [](const Tensor& h, const Tensor& weight, const Tensor& labels,
                                           std::int64_t ignored, std::int64_t chunk_rows) {
    const c10::cuda::CUDAGuard guard(h.device());
    return linear_cross_entropy_losses(kRows, h, weight, labels, ignored, chunk_rows);
  });
  m.impl("linear_cross_entropy_statistics",
         [](const Tensor& h, const Tensor& weight, const Tensor& place, std::int64_t chunk_rows) {
           const c10::cuda::CUDAGuard guard(h.device());
           return linear_cross_entropy_statistics(kRows, h, weight, place, chunk_rows);
         });
  m.impl(
      "linear_cross_entropy_gradients",
      [](const Tensor& h, const Tensor& weight, const Tensor& place, const Tensor& largest, const Tensor& sum,
         const Tensor& gradient, const Tensor& place_gradient, std::int64_t chunk_rows) {
        const c10::cuda::CUDAGuard guard(h.device());
        return linear_cross_entropy_gradients(kRows, h, weight, place, largest, sum, gradient, place_gradient,
                                              chunk_rows);
      });
}

}  // namespace rondo
