// The loop over chunks for every device, shape rules, and the formula for autograd. The gradient of
// a loss is known before the loss, so one sweep over the rows computes losses and gradients from
// the same logits.
#include "ops/linear_cross_entropy/linear_cross_entropy.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/sum.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <algorithm>

#include "ops/kernel/op_handle.h"
#include "ops/kernel/with_dtype.h"

namespace rondo {
namespace {

using at::Tensor;

// No product of bf16 on the CPU keeps its sums in f32, so its operands are widened first.
void add_product_cpu(const Tensor& sum_VD, const Tensor& logits_RV, const Tensor& h_RD, int already) {
  Tensor sum = sum_VD;
  const at::ScalarType dtype = sum.scalar_type();
  at::addmm_out(sum, sum, logits_RV.to(dtype).t(), h_RD.to(dtype), already);
}

constexpr ChunkKernels kOnCpu{kCrossEntropyOnCpu, &add_product_cpu};

// --- chunks, on every device ---

at::TensorOptions of_rows(const Tensor& h) { return h.options().dtype(sum_dtype(h)); }

void check(const Tensor& h, const Tensor& weight, const Tensor& labels, std::int64_t chunk_rows) {
  TORCH_CHECK(h.dim() == 2 && weight.dim() == 2 && h.size(1) == weight.size(1),
              "linear_cross_entropy: h [N, D] and weight [V, D] must have the same D");
  TORCH_CHECK(h.scalar_type() == weight.scalar_type() &&
                  (h.scalar_type() == at::kBFloat16 || h.scalar_type() == at::kFloat ||
                   h.scalar_type() == at::kDouble),
              "linear_cross_entropy: h and weight must have one dtype, bf16, f32 or f64");
  TORCH_CHECK(h.is_contiguous() && weight.is_contiguous(),
              "linear_cross_entropy: h and weight must be contiguous");
  TORCH_CHECK(labels.scalar_type() == at::kLong && labels.numel() == h.size(0) && labels.is_contiguous(),
              "linear_cross_entropy: labels must have one i64 per row");
  TORCH_CHECK(chunk_rows > 0, "linear_cross_entropy: a chunk must have at least one row");
}

void check_columns(const Tensor& h, std::initializer_list<const Tensor*> columns) {
  for (const Tensor* column : columns)
    TORCH_CHECK(
        column->numel() == h.size(0) && column->is_contiguous() && column->scalar_type() == sum_dtype(h),
        "linear_cross_entropy: operands of rows must have one number per row");
}

Tensor empty_losses(const Tensor& h) { return at::empty({h.size(0)}, of_rows(h)); }
Tensor empty_grad_h(const Tensor& h) { return at::empty(h.sizes(), h.options()); }
Tensor empty_grad_weight(const Tensor& weight) { return at::empty(weight.sizes(), of_rows(weight)); }
Tensor empty_workspace(const Tensor& h, const Tensor& weight, std::int64_t chunk_rows) {
  return at::empty({std::min(chunk_rows, h.size(0)), weight.size(0)}, h.options());
}

// Some rows of the batch, with their logits in the workspace.
struct Chunk {
  std::int64_t first, rows;
  Tensor h_RD, logits_RV;

  Tensor of(const Tensor& x) const { return x.narrow(0, first, rows); }
};
template <class F>
void for_each_chunk(const Tensor& h, const Tensor& weight, const Tensor& workspace, F&& f) {
  const std::int64_t each = workspace.size(0);
  for (std::int64_t first = 0; first < h.size(0); first += each) {
    const std::int64_t rows = std::min(each, h.size(0) - first);
    Chunk chunk{first, rows, h.narrow(0, first, rows), workspace.narrow(0, 0, rows)};
    at::mm_out(chunk.logits_RV, chunk.h_RD, weight.t());
    f(chunk);
  }
}

// Multiplies the gradients of a chunk's logits, which have overwritten the logits.
void multiply_back(const ChunkKernels& kernels, const Chunk& chunk, const Tensor& weight,
                   const Tensor& grad_h, const Tensor& grad_weight) {
  Tensor part = chunk.of(grad_h);
  at::mm_out(part, chunk.logits_RV, weight);
  kernels.add_product(grad_weight, chunk.logits_RV, chunk.h_RD, chunk.first > 0 ? 1 : 0);
}

}  // namespace

std::tuple<Tensor, Tensor, Tensor, Tensor> linear_cross_entropy(const ChunkKernels& kernels, const Tensor& h,
                                                                const Tensor& weight, const Tensor& labels,
                                                                const Tensor& gradient, std::int64_t ignored,
                                                                std::int64_t chunk_rows) {
  check(h, weight, labels, chunk_rows);
  TORCH_CHECK(gradient.numel() == 1 && gradient.scalar_type() == sum_dtype(h),
              "linear_cross_entropy: the gradient of the losses must be a scalar");
  const Tensor losses = empty_losses(h), grad_h = empty_grad_h(h), grad_weight = empty_grad_weight(weight);
  const Tensor workspace = empty_workspace(h, weight, chunk_rows);
  if (h.size(0) == 0) grad_weight.zero_();
  for_each_chunk(h, weight, workspace, [&](const Chunk& chunk) {
    kernels.rows.losses(chunk.logits_RV, chunk.of(labels), ignored, gradient, chunk.of(losses));
    multiply_back(kernels, chunk, weight, grad_h, grad_weight);
  });
  return {losses, grad_h, grad_weight, workspace};
}

std::tuple<Tensor, Tensor> linear_cross_entropy_losses(const ChunkKernels& kernels, const Tensor& h,
                                                       const Tensor& weight, const Tensor& labels,
                                                       std::int64_t ignored, std::int64_t chunk_rows) {
  check(h, weight, labels, chunk_rows);
  const Tensor losses = empty_losses(h), workspace = empty_workspace(h, weight, chunk_rows);
  for_each_chunk(h, weight, workspace, [&](const Chunk& chunk) {
    kernels.rows.losses(chunk.logits_RV, chunk.of(labels), ignored, {}, chunk.of(losses));
  });
  return {losses, workspace};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> linear_cross_entropy_statistics(const ChunkKernels& kernels,
                                                                           const Tensor& h,
                                                                           const Tensor& weight,
                                                                           const Tensor& place,
                                                                           std::int64_t chunk_rows) {
  check(h, weight, place, chunk_rows);
  const Tensor largest = empty_losses(h), sum = empty_losses(h);
  const Tensor logit = at::empty({h.size(0), 1}, of_rows(h));
  const Tensor workspace = empty_workspace(h, weight, chunk_rows);
  for_each_chunk(h, weight, workspace, [&](const Chunk& chunk) {
    kernels.rows.statistics(chunk.logits_RV, chunk.of(place), chunk.of(largest), chunk.of(sum),
                            chunk.of(logit));
  });
  return {largest, sum, logit, workspace};
}

std::tuple<Tensor, Tensor, Tensor> linear_cross_entropy_gradients(const ChunkKernels& kernels,
                                                                  const Tensor& h, const Tensor& weight,
                                                                  const Tensor& place, const Tensor& largest,
                                                                  const Tensor& sum, const Tensor& gradient,
                                                                  const Tensor& place_gradient,
                                                                  std::int64_t chunk_rows) {
  check(h, weight, place, chunk_rows);
  check_columns(h, {&largest, &sum, &gradient, &place_gradient});
  const Tensor grad_h = empty_grad_h(h), grad_weight = empty_grad_weight(weight);
  const Tensor workspace = empty_workspace(h, weight, chunk_rows);
  if (h.size(0) == 0) grad_weight.zero_();
  for_each_chunk(h, weight, workspace, [&](const Chunk& chunk) {
    kernels.rows.gradients(chunk.logits_RV, chunk.of(place), chunk.of(largest), chunk.of(sum),
                           chunk.of(gradient), chunk.of(place_gradient));
    multiply_back(kernels, chunk, weight, grad_h, grad_weight);
  });
  return {grad_h, grad_weight, workspace};
}

// --- shape rules, and the ops ---

namespace {

std::tuple<Tensor, Tensor, Tensor, Tensor> all_shapes(const Tensor& h, const Tensor& weight,
                                                      const Tensor& labels, const Tensor&, std::int64_t,
                                                      std::int64_t chunk_rows) {
  check(h, weight, labels, chunk_rows);
  return {empty_losses(h), empty_grad_h(h), empty_grad_weight(weight),
          empty_workspace(h, weight, chunk_rows)};
}
std::tuple<Tensor, Tensor> losses_shapes(const Tensor& h, const Tensor& weight, const Tensor& labels,
                                         std::int64_t, std::int64_t chunk_rows) {
  check(h, weight, labels, chunk_rows);
  return {empty_losses(h), empty_workspace(h, weight, chunk_rows)};
}
std::tuple<Tensor, Tensor, Tensor, Tensor> statistics_shapes(const Tensor& h, const Tensor& weight,
                                                             const Tensor& place, std::int64_t chunk_rows) {
  check(h, weight, place, chunk_rows);
  return {empty_losses(h), empty_losses(h), at::empty({h.size(0), 1}, of_rows(h)),
          empty_workspace(h, weight, chunk_rows)};
}
std::tuple<Tensor, Tensor, Tensor> gradients_shapes(const Tensor& h, const Tensor& weight,
                                                    const Tensor& place, const Tensor& largest,
                                                    const Tensor& sum, const Tensor& gradient,
                                                    const Tensor& place_gradient, std::int64_t chunk_rows) {
  check(h, weight, place, chunk_rows);
  check_columns(h, {&largest, &sum, &gradient, &place_gradient});
  return {empty_grad_h(h), empty_grad_weight(weight), empty_workspace(h, weight, chunk_rows)};
}

Tensor sum_of_losses(const Tensor& h, const Tensor& weight, const Tensor& labels, std::int64_t ignored,
                     std::int64_t chunk_rows) {
  static const auto handle = op_handle<decltype(losses_shapes)>("rondo::linear_cross_entropy_losses");
  return at::sum(std::get<0>(handle.call(h, weight, labels, ignored, chunk_rows)));
}

struct LinearCrossEntropySum : torch::autograd::Function<LinearCrossEntropySum> {
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& h, const Tensor& weight,
                        const Tensor& labels, const Tensor& gradient, std::int64_t ignored,
                        std::int64_t chunk_rows) {
    static const auto handle = op_handle<decltype(all_shapes)>("rondo::linear_cross_entropy");
    at::AutoDispatchBelowAutograd below_autograd;
    const auto [losses, grad_h, grad_weight, workspace] =
        handle.call(h, weight, labels, gradient, ignored, chunk_rows);
    context->save_for_backward({grad_h, grad_weight});
    return at::sum(losses);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list&) {
    const torch::autograd::variable_list gradients = context->get_saved_variables();
    return {gradients[0], gradients[1], {}, {}, {}, {}};
  }
};

struct RecomputedLinearCrossEntropySum : torch::autograd::Function<RecomputedLinearCrossEntropySum> {
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& h, const Tensor& weight,
                        const Tensor& labels, const Tensor& gradient, std::int64_t ignored,
                        std::int64_t chunk_rows) {
    at::AutoDispatchBelowAutograd below_autograd;
    context->save_for_backward({h, weight, labels, gradient});
    context->saved_data["ignored"] = ignored;
    context->saved_data["chunk_rows"] = chunk_rows;
    return sum_of_losses(h, weight, labels, ignored, chunk_rows);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list&) {
    static const auto handle = op_handle<decltype(all_shapes)>("rondo::linear_cross_entropy");
    const torch::autograd::variable_list saved = context->get_saved_variables();
    const auto [losses, grad_h, grad_weight, workspace] =
        handle.call(saved[0], saved[1], saved[2], saved[3], context->saved_data["ignored"].toInt(),
                    context->saved_data["chunk_rows"].toInt());
    return {grad_h, grad_weight, {}, {}, {}, {}};
  }
};

}  // namespace

Tensor linear_cross_entropy_of(const Tensor& h, const Tensor& weight, const Tensor& labels,
                               const Tensor& gradient, std::int64_t ignored, std::int64_t chunk_rows,
                               HeadGradients gradients) {
  if (!c10::GradMode::is_enabled()) return sum_of_losses(h, weight, labels, ignored, chunk_rows);
  if (gradients == HeadGradients::in_backward)
    return RecomputedLinearCrossEntropySum::apply(h, weight, labels, gradient, ignored, chunk_rows);
  return LinearCrossEntropySum::apply(h, weight, labels, gradient, ignored, chunk_rows);
}

TORCH_LIBRARY_FRAGMENT(rondo, m) {
  m.def(
      "linear_cross_entropy(Tensor h, Tensor weight, Tensor labels, Tensor gradient, int ignored, int "
      "chunk_rows) -> (Tensor losses, Tensor grad_h, Tensor grad_weight, Tensor workspace)");
  m.def(
      "linear_cross_entropy_losses(Tensor h, Tensor weight, Tensor labels, int ignored, int chunk_rows) -> "
      "(Tensor losses, Tensor workspace)");
  m.def(
      "linear_cross_entropy_statistics(Tensor h, Tensor weight, Tensor place, int chunk_rows) -> (Tensor "
      "largest, Tensor sum, Tensor logit, Tensor workspace)");
  m.def(
      "linear_cross_entropy_gradients(Tensor h, Tensor weight, Tensor place, Tensor largest, Tensor sum, "
      "Tensor gradient, Tensor place_gradient, int chunk_rows) -> (Tensor grad_h, Tensor grad_weight, Tensor "
      "workspace)");
}
TORCH_LIBRARY_IMPL(rondo, Meta, m) {
  m.impl("linear_cross_entropy", &all_shapes);
  m.impl("linear_cross_entropy_losses", &losses_shapes);
  m.impl("linear_cross_entropy_statistics", &statistics_shapes);
  m.impl("linear_cross_entropy_gradients", &gradients_shapes);
}

TORCH_LIBRARY_IMPL(rondo, CPU, m) {
  m.impl("linear_cross_entropy", [](const Tensor& h, const Tensor& weight, const Tensor& labels,
                                    const Tensor& gradient, std::int64_t ignored, std::int64_t chunk_rows) {
    return linear_cross_entropy(kOnCpu, h, weight, labels, gradient, ignored, chunk_rows);
  });
  m.impl("linear_cross_entropy_losses", [](const Tensor& h, const Tensor& weight, const Tensor& labels,
                                           std::int64_t ignored, std::int64_t chunk_rows) {
    return linear_cross_entropy_losses(kOnCpu, h, weight, labels, ignored, chunk_rows);
  });
  m.impl("linear_cross_entropy_statistics",
         [](const Tensor& h, const Tensor& weight, const Tensor& place, std::int64_t chunk_rows) {
           return linear_cross_entropy_statistics(kOnCpu, h, weight, place, chunk_rows);
         });
  m.impl(
      "linear_cross_entropy_gradients",
      [](const Tensor& h, const Tensor& weight, const Tensor& place, const Tensor& largest, const Tensor& sum,
         const Tensor& gradient, const Tensor& place_gradient, std::int64_t chunk_rows) {
        return linear_cross_entropy_gradients(kOnCpu, h, weight, place, largest, sum, gradient,
                                              place_gradient, chunk_rows);
      });
}

}  // namespace rondo
