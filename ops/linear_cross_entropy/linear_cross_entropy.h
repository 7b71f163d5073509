// The product of a model's head and its cross-entropy, `chunk_rows` rows at a time, so that only
// the logits of one chunk are in memory.
//
//   rondo::linear_cross_entropy(h, weight, labels, gradient, ignored, chunk_rows)
//     -> (losses, grad_h, grad_weight, workspace)        of a whole vocabulary, in one sweep
//   rondo::linear_cross_entropy_losses(h, weight, labels, ignored, chunk_rows)
//     -> (losses, workspace)                             the same without gradients
//   rondo::linear_cross_entropy_statistics(h, weight, place, chunk_rows)
//     -> (largest, sum, logit, workspace)                of a shard, which ranks then exchange
//   rondo::linear_cross_entropy_gradients(h, weight, place, largest, sum, gradient,
//                                         place_gradient, chunk_rows)
//     -> (grad_h, grad_weight, workspace)                of a shard; recomputes the logits
//
//   losses[n] = log(sum over v of exp(x[v])) - x[labels[n]], x = h[n] weight^T;
//               0 where labels[n] is `ignored`
//
// N rows of width D, V classes. h [N, D] and weight [V, D] have one dtype, f64, f32 or bf16, and
// are contiguous. Logits are computed and rounded in that dtype. Results per row are f32 (f64 for
// f64), and so is grad_weight, the sum of the chunks' products. grad_h has the dtype of h.
// `workspace` [min(chunk_rows, N), V] holds a chunk's logits and their gradients; it is a result so
// that plans count its bytes. On the CPU, bf16 products for grad_weight use additional f32 copies
// of a chunk.
//
// Kernels run on the current stream, read nothing on the host, and add in an order that depends
// only on sizes. The ops are not differentiable; linear_cross_entropy_of is. Throws c10::Error for
// operands other than described here.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <tuple>

#include "ops/cross_entropy/cross_entropy.h"

namespace rondo {

// When the gradients of h and weight are computed. The forward does so in one sweep, and keeps them
// until the backward. The backward computes the logits again, and nothing of size [V, D] is kept.
enum class HeadGradients : std::uint8_t { in_forward, in_backward };

// Returns the sum of the losses, []. Both ways to compute gradients have the same bits. REQUIRES:
// `gradient` is the gradient of the sum.
at::Tensor linear_cross_entropy_of(const at::Tensor& h, const at::Tensor& weight, const at::Tensor& labels,
                                   const at::Tensor& gradient, std::int64_t ignored, std::int64_t chunk_rows,
                                   HeadGradients gradients = HeadGradients::in_forward);

// The kernels of a device over a chunk.
struct ChunkKernels {
  const CrossEntropyRows& rows;
  // sum_VD = already * sum_VD + logits_RV^T h_RD, all in the dtype of the sum. `already` is 1, or
  // 0: then the old sum is not read.
  void (*add_product)(const at::Tensor& sum_VD, const at::Tensor& logits_RV, const at::Tensor& h_RD,
                      int already);
};

// Returns losses [N], grad_h [N, D], grad_weight [V, D], workspace. labels is i64 [N]; gradient is
// that of every loss, a scalar.
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> linear_cross_entropy(
    const ChunkKernels& kernels, const at::Tensor& h, const at::Tensor& weight, const at::Tensor& labels,
    const at::Tensor& gradient, std::int64_t ignored, std::int64_t chunk_rows);

// Returns losses [N], workspace.
std::tuple<at::Tensor, at::Tensor> linear_cross_entropy_losses(const ChunkKernels& kernels,
                                                               const at::Tensor& h, const at::Tensor& weight,
                                                               const at::Tensor& labels, std::int64_t ignored,
                                                               std::int64_t chunk_rows);

// Returns largest [N], sum [N], the logit at `place` [N, 1], workspace. place is i64 [N, 1], among
// the classes.
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> linear_cross_entropy_statistics(
    const ChunkKernels& kernels, const at::Tensor& h, const at::Tensor& weight, const at::Tensor& place,
    std::int64_t chunk_rows);

// Returns grad_h, grad_weight, workspace. All operands after `weight` are [N, 1]; `largest` and
// `sum` are those of all shards.
std::tuple<at::Tensor, at::Tensor, at::Tensor> linear_cross_entropy_gradients(
    const ChunkKernels& kernels, const at::Tensor& h, const at::Tensor& weight, const at::Tensor& place,
    const at::Tensor& largest, const at::Tensor& sum, const at::Tensor& gradient,
    const at::Tensor& place_gradient, std::int64_t chunk_rows);

}  // namespace rondo
