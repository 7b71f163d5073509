// The cross-entropy of rows of logits with their labels. Each direction walks once over the logits, and no
// probabilities are kept in between:
//
//   rondo::cross_entropy(logits, labels, ignored) -> (loss, largest, sum)             with autograd
//   rondo::cross_entropy_backward(grad, logits, labels, largest, sum, ignored) -> grad_logits
//
//   largest[n] = max over v of logits[n, v]
//   sum[n] = sum over v of exp(logits[n, v] - largest[n])
//   loss = sum over n of log(sum[n]) - (logits[n, labels[n]] - largest[n])
//   grad_logits[n, v] = grad * (exp(logits[n, v] - largest[n]) / sum[n] - [v is labels[n]])
//
// Rows with the label `ignored` have neither loss nor gradient. Another label that is no class makes the loss
// a nan, and so does a logit that is a nan or inf: the step then counts as one that is not finite.
//
// logits [N, V] are f32, bf16 or, on the CPU, f64, and contiguous; labels are i64 [N]. loss and grad,
// scalars, and largest and sum, [N], are f32, or f64 for f64. grad_logits has the dtype of logits and may
// take their memory. All arithmetic is f32, or f64 for f64; losses are added in f64, and results are rounded
// once. Orders of sums depend on sizes alone.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <tuple>

namespace rondo {

// The loss alone.
at::Tensor cross_entropy_of(const at::Tensor& logits, const at::Tensor& labels, std::int64_t ignored);

// The kernels of a device over rows of logits, for ops of whole rows here and of chunks of them in
// ops/linear_cross_entropy/. logits_RV is contiguous, [R] and [R, 1] operands too. They run on the current
// stream and read nothing on the host.
struct CrossEntropyRows {
  // Losses; 0 for a row whose label is `ignored`. With a defined `gradient` (of every loss, a scalar) the
  // logits are overwritten by their gradients; 0 for ignored rows.
  void (*losses)(const at::Tensor& logits_RV, const at::Tensor& labels_R, std::int64_t ignored,
                 const at::Tensor& gradient, const at::Tensor& losses_R);
  // Of each row the largest logit, sum(exp(logit - largest)), and the logit at `place`: a nan if that is no
  // class.
  void (*statistics)(const at::Tensor& logits_RV, const at::Tensor& place_R, const at::Tensor& largest_R,
                     const at::Tensor& sum_R, const at::Tensor& logit_R);
  // Overwrites logits by exp(logit - largest) / sum * gradient, less place_gradient at `place`.
  void (*gradients)(const at::Tensor& logits_RV, const at::Tensor& place_R, const at::Tensor& largest_R,
                    const at::Tensor& sum_R, const at::Tensor& gradient_R,
                    const at::Tensor& place_gradient_R);
  // The sum of the losses of rows with these statistics.
  void (*total)(const at::Tensor& largest_R, const at::Tensor& sum_R, const at::Tensor& logit_R,
                const at::Tensor& labels_R, std::int64_t ignored, const at::Tensor& loss);
  // grad_logits as above.
  void (*backward)(const at::Tensor& grad, const at::Tensor& logits_RV, const at::Tensor& labels_R,
                   const at::Tensor& largest_R, const at::Tensor& sum_R, std::int64_t ignored,
                   const at::Tensor& grad_logits_RV);
};
extern const CrossEntropyRows kCrossEntropyOnCpu, kCrossEntropyOnCuda;

// The ops on a device. Operands that are not as above end in Error(internal).
std::tuple<at::Tensor, at::Tensor, at::Tensor> cross_entropy(const CrossEntropyRows& rows,
                                                             const at::Tensor& logits,
                                                             const at::Tensor& labels, std::int64_t ignored);
at::Tensor cross_entropy_backward(const CrossEntropyRows& rows, const at::Tensor& grad,
                                  const at::Tensor& logits, const at::Tensor& labels,
                                  const at::Tensor& largest, const at::Tensor& sum, std::int64_t ignored);

}  // namespace rondo
