// The cross-entropy of rows of logits and their labels. Each direction reads the logits once; no
// probabilities are stored in between:
//
//   rondo::cross_entropy(logits, labels, ignored) -> (loss, largest, sum)          differentiable
//   rondo::cross_entropy_backward(grad, logits, labels, largest, sum, ignored) -> grad_logits
//
//   largest[n] = max over v of logits[n, v]
//   sum[n] = sum over v of exp(logits[n, v] - largest[n])
//   loss = sum over n of log(sum[n]) - (logits[n, labels[n]] - largest[n])
//   grad_logits[n, v] = grad * (exp(logits[n, v] - largest[n]) / sum[n] - [v is labels[n]])
//
// Rows with the label `ignored` have no loss and no gradient. Any other label that is no class
// makes the loss a nan, and so does a nan or inf logit: the step then counts as non-finite.
//
// logits [N, V] are f32, bf16 or, on the CPU, f64, and contiguous. labels are i64 [N]. The scalars
// loss and grad, and largest and sum [N], are f32, or f64 for f64. grad_logits has the dtype of
// logits and may share their memory. All arithmetic is f32, or f64 for f64; losses are added in
// f64, and results are rounded once. Orders of sums depend only on sizes.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <tuple>

namespace rondo {

// Returns only the loss.
at::Tensor cross_entropy_of(const at::Tensor& logits, const at::Tensor& labels, std::int64_t ignored);

// A device's kernels over rows of logits, for the ops here and for chunks of rows in
// ops/linear_cross_entropy/. logits_RV, [R] and [R, 1] operands are contiguous. The kernels run on
// the current stream and read nothing on the host.
struct CrossEntropyRows {
  // Computes the losses; 0 for a row whose label is `ignored`. If `gradient` (of every loss, a
  // scalar) is defined, the logits are overwritten by their gradients; 0 for ignored rows.
  void (*losses)(const at::Tensor& logits_RV, const at::Tensor& labels_R, std::int64_t ignored,
                 const at::Tensor& gradient, const at::Tensor& losses_R);
  // Computes for each row the largest logit, sum(exp(logit - largest)), and the logit at `place`; a
  // nan if `place` is no class.
  void (*statistics)(const at::Tensor& logits_RV, const at::Tensor& place_R, const at::Tensor& largest_R,
                     const at::Tensor& sum_R, const at::Tensor& logit_R);
  // Overwrites logits by exp(logit - largest) / sum * gradient, minus place_gradient at `place`.
  void (*gradients)(const at::Tensor& logits_RV, const at::Tensor& place_R, const at::Tensor& largest_R,
                    const at::Tensor& sum_R, const at::Tensor& gradient_R,
                    const at::Tensor& place_gradient_R);
  // Sums the losses of rows with these statistics.
  void (*total)(const at::Tensor& largest_R, const at::Tensor& sum_R, const at::Tensor& logit_R,
                const at::Tensor& labels_R, std::int64_t ignored, const at::Tensor& loss);
  // Computes grad_logits as above.
  void (*backward)(const at::Tensor& grad, const at::Tensor& logits_RV, const at::Tensor& labels_R,
                   const at::Tensor& largest_R, const at::Tensor& sum_R, std::int64_t ignored,
                   const at::Tensor& grad_logits_RV);
};
extern const CrossEntropyRows kCrossEntropyOnCpu, kCrossEntropyOnCuda;

// The ops on a device. Throws Error(internal) for operands other than described above.
std::tuple<at::Tensor, at::Tensor, at::Tensor> cross_entropy(const CrossEntropyRows& rows,
                                                             const at::Tensor& logits,
                                                             const at::Tensor& labels, std::int64_t ignored);
at::Tensor cross_entropy_backward(const CrossEntropyRows& rows, const at::Tensor& grad,
                                  const at::Tensor& logits, const at::Tensor& labels,
                                  const at::Tensor& largest, const at::Tensor& sum, std::int64_t ignored);

}  // namespace rondo
