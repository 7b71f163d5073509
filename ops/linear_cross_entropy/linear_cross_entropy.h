// The product of a model's head and its cross-entropy, `chunk_rows` rows at a time: no more logits than those
// of a chunk are ever in memory. Ops that no model calls; the pass chunk_loss introduces them.
//
//   rondo::linear_cross_entropy(h, weight, labels, gradient, ignored, chunk_rows)
//     -> (losses, grad_h, grad_weight, workspace)        of a whole vocabulary, in one sweep
//   rondo::linear_cross_entropy_losses(h, weight, labels, ignored, chunk_rows)
//     -> (losses, workspace)                             the same without gradients
//   rondo::linear_cross_entropy_statistics(h, weight, place, chunk_rows)
//     -> (largest, sum, logit, workspace)                of a shard: what ranks then exchange to know all of
//     it,
//   rondo::linear_cross_entropy_gradients(h, weight, place, largest, sum, gradient, place_gradient,
//   chunk_rows)
//     -> (grad_h, grad_weight, workspace)                and the gradients, from the same logits computed
//     again
//
//   losses[n] = log(sum over v of exp(x[v])) - x[labels[n]], x = h[n] weight^T; 0 where labels[n] is
//   `ignored`
//
// N rows of width D, V classes; h [N, D] and weight [V, D] of one dtype: f64, f32 or bf16, contiguous. Logits
// are computed and rounded in that dtype. What is of a row is f32 (f64 for f64), and so is grad_weight, the
// sum of the chunks' products; grad_h has the dtype of h. `workspace` [min(chunk_rows, N), V] is where a
// chunk's logits and their gradients lie: a result so that a plan knows of its bytes. On the CPU bf16
// products for grad_weight take f32 copies of a chunk beside it.
//
// Kernels run on the current stream, read nothing on the host, and add in an order that depends on sizes
// alone. No autograd. Operands that are not as here end in c10::Error.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <tuple>

#include "ops/cross_entropy/cross_entropy.h"

namespace rondo {

// The kernels of a device over a chunk.
struct ChunkKernels {
  const CrossEntropyRows& rows;
  // sum_VD = already * sum_VD + logits_RV^T h_RD, all in the dtype of the sum. already: 0, where what stands
  // there is not read, or 1.
  void (*add_product)(const at::Tensor& sum_VD, const at::Tensor& logits_RV, const at::Tensor& h_RD,
                      int already);
};

// losses [N], grad_h [N, D], grad_weight [V, D], workspace. labels: i64 [N]; gradient: of every loss, a
// scalar.
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> linear_cross_entropy(
    const ChunkKernels& kernels, const at::Tensor& h, const at::Tensor& weight, const at::Tensor& labels,
    const at::Tensor& gradient, std::int64_t ignored, std::int64_t chunk_rows);

// losses [N], workspace.
std::tuple<at::Tensor, at::Tensor> linear_cross_entropy_losses(const ChunkKernels& kernels,
                                                               const at::Tensor& h, const at::Tensor& weight,
                                                               const at::Tensor& labels, std::int64_t ignored,
                                                               std::int64_t chunk_rows);

// largest [N], sum [N], the logit at `place` [N, 1], workspace. place: i64 [N, 1], among the classes.
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> linear_cross_entropy_statistics(
    const ChunkKernels& kernels, const at::Tensor& h, const at::Tensor& weight, const at::Tensor& place,
    std::int64_t chunk_rows);

// grad_h, grad_weight, workspace. Everything behind `weight` is [N, 1]; `largest` and `sum` are of all
// shards.
std::tuple<at::Tensor, at::Tensor, at::Tensor> linear_cross_entropy_gradients(
    const ChunkKernels& kernels, const at::Tensor& h, const at::Tensor& weight, const at::Tensor& place,
    const at::Tensor& largest, const at::Tensor& sum, const at::Tensor& gradient,
    const at::Tensor& place_gradient, std::int64_t chunk_rows);

}  // namespace rondo
