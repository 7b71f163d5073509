// The kernels over rows of logits on CUDA, and the ops that use them.
#include "ops/cross_entropy/cross_entropy_cuda.h"

#include <c10/cuda/CUDAGuard.h>
#include <torch/library.h>

#include "ops/cross_entropy/cross_entropy.h"
#include "ops/kernel/launch.h"

namespace rondo {
namespace {

using at::Tensor;

cuda::LogitRows operands(const cuda::Launch& launch, const Tensor& logits_RV) {
  TORCH_CHECK(logits_RV.scalar_type() == at::kFloat || logits_RV.scalar_type() == at::kBFloat16,
              "cross_entropy on CUDA requires f32 or bf16");
  return {logits_RV.data_ptr(), launch.element(logits_RV), logits_RV.size(0), logits_RV.size(1)};
}
const std::int64_t* labels_of(const Tensor& labels) { return labels.const_data_ptr<std::int64_t>(); }
const float* numbers_of(const Tensor& x) { return x.defined() ? x.const_data_ptr<float>() : nullptr; }

void losses(const Tensor& logits_RV, const Tensor& labels_R, std::int64_t ignored, const Tensor& gradient,
            const Tensor& losses_R) {
  const cuda::Launch launch(logits_RV, "cross_entropy");
  cuda::cross_entropy_losses(operands(launch, logits_RV), labels_of(labels_R), ignored, numbers_of(gradient),
                             losses_R.data_ptr<float>(), launch.stream());
  launch.check();
}

void statistics(const Tensor& logits_RV, const Tensor& place_R, const Tensor& largest_R, const Tensor& sum_R,
                const Tensor& logit_R) {
  const cuda::Launch launch(logits_RV, "cross_entropy_statistics");
  cuda::cross_entropy_statistics(operands(launch, logits_RV), labels_of(place_R), largest_R.data_ptr<float>(),
                                 sum_R.data_ptr<float>(), logit_R.data_ptr<float>(), launch.stream());
  launch.check();
}

void gradients(const Tensor& logits_RV, const Tensor& place_R, const Tensor& largest_R, const Tensor& sum_R,
               const Tensor& gradient_R, const Tensor& place_gradient_R) {
  const cuda::Launch launch(logits_RV, "cross_entropy_gradients");
  cuda::cross_entropy_gradients(operands(launch, logits_RV), labels_of(place_R), numbers_of(largest_R),
                                numbers_of(sum_R), numbers_of(gradient_R), numbers_of(place_gradient_R),
                                launch.stream());
  launch.check();
}

void total(const Tensor& largest_R, const Tensor& sum_R, const Tensor& logit_R, const Tensor& labels_R,
           std::int64_t ignored, const Tensor& loss) {
  const cuda::Launch launch(loss, "cross_entropy");
  cuda::cross_entropy_total(numbers_of(largest_R), numbers_of(sum_R), numbers_of(logit_R),
                            labels_of(labels_R), ignored, labels_R.numel(), loss.data_ptr<float>(),
                            launch.stream());
  launch.check();
}

void backward(const Tensor& grad, const Tensor& logits_RV, const Tensor& labels_R, const Tensor& largest_R,
              const Tensor& sum_R, std::int64_t ignored, const Tensor& grad_logits_RV) {
  const cuda::Launch launch(logits_RV, "cross_entropy_backward");
  cuda::cross_entropy_backward(numbers_of(grad), operands(launch, logits_RV), labels_of(labels_R),
                               numbers_of(largest_R), numbers_of(sum_R), ignored, grad_logits_RV.data_ptr(),
                               launch.stream());
  launch.check();
}

}  // namespace

constexpr CrossEntropyRows kCrossEntropyOnCuda{&losses, &statistics, &gradients, &total, &backward};

TORCH_LIBRARY_IMPL(rondo, CUDA, m) {
  m.impl("cross_entropy", [](const Tensor& logits, const Tensor& labels, std::int64_t ignored) {
    const c10::cuda::CUDAGuard guard(logits.device());
    return cross_entropy(kCrossEntropyOnCuda, logits, labels, ignored);
  });
  m.impl("cross_entropy_backward", [](const Tensor& grad, const Tensor& logits, const Tensor& labels,
                                      const Tensor& largest, const Tensor& sum, std::int64_t ignored) {
    const c10::cuda::CUDAGuard guard(logits.device());
    return cross_entropy_backward(kCrossEntropyOnCuda, grad, logits, labels, largest, sum, ignored);
  });
}

}  // namespace rondo
