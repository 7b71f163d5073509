// The loop over chunks for every device, shape rules, and the kernels over a chunk's rows for the CPU.
#include "ops/linear_cross_entropy/linear_cross_entropy.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <torch/library.h>

#include <algorithm>
#include <limits>

#include "ops/kernel/element.h"
#include "ops/kernel/parallel_rows.h"
#include "ops/kernel/with_dtype.h"
#include "ops/linear_cross_entropy/linear_cross_entropy_math.h"

namespace rondo {
namespace {

using at::Tensor;

// --- the rows of a chunk on the CPU ---

// Sixteen sums at once, as a sum of all in a row would round too often.
template <class Logit>
RowStatistics<SumOf<Logit>> statistics_of(const Logit* row, std::int64_t classes) {
  constexpr std::int64_t kLanes = 16;
  RowStatistics<SumOf<Logit>> lanes[kLanes];
  for (std::int64_t v = 0; v < classes; ++v) lanes[v % kLanes].add(static_cast<SumOf<Logit>>(row[v]));
  for (std::int64_t lane = 1; lane < kLanes; ++lane) lanes[0].add(lanes[lane]);
  return lanes[0];
}

template <class Logit>
SumOf<Logit> logit_at(const Logit* row, std::int64_t place, std::int64_t classes) {
  using T = SumOf<Logit>;
  return is_class(place, classes) ? static_cast<T>(row[place]) : std::numeric_limits<T>::quiet_NaN();
}

// A place that is no class gets no gradient of its own: the loss is a nan and stops the step.
template <class Logit>
void overwrite_by_gradient(Logit* row, std::int64_t classes, std::int64_t place, SumOf<Logit> largest,
                           SumOf<Logit> scale, SumOf<Logit> place_gradient) {
  using T = SumOf<Logit>;
  for (std::int64_t v = 0; v < classes; ++v) {
    const T gradient = logit_gradient(static_cast<T>(row[v]), largest, scale);
    row[v] = static_cast<Logit>(v == place ? gradient - place_gradient : gradient);
  }
}

void losses_cpu(const Tensor& logits_RV, const Tensor& labels_R, std::int64_t ignored, const Tensor& gradient,
                const Tensor& losses_R) {
  with_dtype(logits_RV, "linear_cross_entropy", [&](auto type) {
    using Logit = decltype(type);
    using T = SumOf<Logit>;
    const std::int64_t classes = logits_RV.size(1);
    auto* const logits = logits_RV.data_ptr<Logit>();
    const auto* const labels = labels_R.const_data_ptr<std::int64_t>();
    auto* const losses = losses_R.data_ptr<T>();
    const T* const of_each = gradient.defined() ? gradient.const_data_ptr<T>() : nullptr;
    for_each_row(logits_RV.size(0), classes, [&](std::int64_t r) {
      Logit* const row = logits + r * classes;
      if (labels[r] == ignored) {
        losses[r] = 0;
        if (of_each != nullptr) std::fill_n(row, classes, Logit(0));
        return;
      }
      const auto statistics = statistics_of(row, classes);
      losses[r] = row_loss(statistics, logit_at(row, labels[r], classes));
      if (of_each != nullptr)
        overwrite_by_gradient(row, classes, labels[r], statistics.largest,
                              row_scale(*of_each, statistics.sum), *of_each);
    });
  });
}

void statistics_cpu(const Tensor& logits_RV, const Tensor& place_R, const Tensor& largest_R,
                    const Tensor& sum_R, const Tensor& logit_R) {
  with_dtype(logits_RV, "linear_cross_entropy_statistics", [&](auto type) {
    using Logit = decltype(type);
    using T = SumOf<Logit>;
    const std::int64_t classes = logits_RV.size(1);
    const auto* const logits = logits_RV.const_data_ptr<Logit>();
    const auto* const places = place_R.const_data_ptr<std::int64_t>();
    auto* const largest = largest_R.data_ptr<T>();
    auto* const sums = sum_R.data_ptr<T>();
    auto* const of_place = logit_R.data_ptr<T>();
    for_each_row(logits_RV.size(0), classes, [&](std::int64_t r) {
      const Logit* const row = logits + r * classes;
      const auto statistics = statistics_of(row, classes);
      largest[r] = statistics.largest;
      sums[r] = statistics.sum;
      of_place[r] = logit_at(row, places[r], classes);
    });
  });
}

void gradients_cpu(const Tensor& logits_RV, const Tensor& place_R, const Tensor& largest_R,
                   const Tensor& sum_R, const Tensor& gradient_R, const Tensor& place_gradient_R) {
  with_dtype(logits_RV, "linear_cross_entropy_gradients", [&](auto type) {
    using Logit = decltype(type);
    using T = SumOf<Logit>;
    const std::int64_t classes = logits_RV.size(1);
    auto* const logits = logits_RV.data_ptr<Logit>();
    const auto* const places = place_R.const_data_ptr<std::int64_t>();
    const T* const largest = largest_R.const_data_ptr<T>();
    const T* const sums = sum_R.const_data_ptr<T>();
    const T* const gradient = gradient_R.const_data_ptr<T>();
    const T* const place_gradient = place_gradient_R.const_data_ptr<T>();
    for_each_row(logits_RV.size(0), classes, [&](std::int64_t r) {
      overwrite_by_gradient(logits + r * classes, classes, places[r], largest[r],
                            row_scale(gradient[r], sums[r]), place_gradient[r]);
    });
  });
}

// No product of bf16 on the CPU leaves its sums in f32, so its operands are widened first.
void add_product_cpu(const Tensor& sum_VD, const Tensor& logits_RV, const Tensor& h_RD, int already) {
  Tensor sum = sum_VD;
  const at::ScalarType dtype = sum.scalar_type();
  at::addmm_out(sum, sum, logits_RV.to(dtype).t(), h_RD.to(dtype), already);
}

constexpr CrossEntropyRows kRows{&losses_cpu, &statistics_cpu, &gradients_cpu, &add_product_cpu};

// --- chunks, on every device ---

at::TensorOptions of_rows(const Tensor& h) { return h.options().dtype(sum_dtype(h)); }

void check(const Tensor& h, const Tensor& weight, const Tensor& labels, std::int64_t chunk_rows) {
  TORCH_CHECK(h.dim() == 2 && weight.dim() == 2 && h.size(1) == weight.size(1),
              "linear_cross_entropy: h [N, D] and weight [V, D] have one D");
  TORCH_CHECK(h.scalar_type() == weight.scalar_type() &&
                  (h.scalar_type() == at::kBFloat16 || h.scalar_type() == at::kFloat ||
                   h.scalar_type() == at::kDouble),
              "linear_cross_entropy: h and weight have one dtype, bf16, f32 or f64");
  TORCH_CHECK(h.is_contiguous() && weight.is_contiguous(),
              "linear_cross_entropy: h and weight are contiguous");
  TORCH_CHECK(labels.scalar_type() == at::kLong && labels.numel() == h.size(0) && labels.is_contiguous(),
              "linear_cross_entropy: one i64 label for each row");
  TORCH_CHECK(chunk_rows > 0, "linear_cross_entropy: a chunk has at least one row");
}

void check_columns(const Tensor& h, std::initializer_list<const Tensor*> columns) {
  for (const Tensor* column : columns)
    TORCH_CHECK(
        column->numel() == h.size(0) && column->is_contiguous() && column->scalar_type() == sum_dtype(h),
        "linear_cross_entropy: one number for each row");
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

// From the gradients of a chunk's logits, which stand in their place.
void multiply_back(const CrossEntropyRows& rows, const Chunk& chunk, const Tensor& weight,
                   const Tensor& grad_h, const Tensor& grad_weight) {
  Tensor part = chunk.of(grad_h);
  at::mm_out(part, chunk.logits_RV, weight);
  rows.add_product(grad_weight, chunk.logits_RV, chunk.h_RD, chunk.first > 0 ? 1 : 0);
}

}  // namespace

std::tuple<Tensor, Tensor, Tensor, Tensor> linear_cross_entropy(const CrossEntropyRows& rows, const Tensor& h,
                                                                const Tensor& weight, const Tensor& labels,
                                                                const Tensor& gradient, std::int64_t ignored,
                                                                std::int64_t chunk_rows) {
  check(h, weight, labels, chunk_rows);
  TORCH_CHECK(gradient.numel() == 1 && gradient.scalar_type() == sum_dtype(h),
              "linear_cross_entropy: all losses have one gradient");
  const Tensor losses = empty_losses(h), grad_h = empty_grad_h(h), grad_weight = empty_grad_weight(weight);
  const Tensor workspace = empty_workspace(h, weight, chunk_rows);
  if (h.size(0) == 0) grad_weight.zero_();
  for_each_chunk(h, weight, workspace, [&](const Chunk& chunk) {
    rows.losses(chunk.logits_RV, chunk.of(labels), ignored, gradient, chunk.of(losses));
    multiply_back(rows, chunk, weight, grad_h, grad_weight);
  });
  return {losses, grad_h, grad_weight, workspace};
}

std::tuple<Tensor, Tensor> linear_cross_entropy_losses(const CrossEntropyRows& rows, const Tensor& h,
                                                       const Tensor& weight, const Tensor& labels,
                                                       std::int64_t ignored, std::int64_t chunk_rows) {
  check(h, weight, labels, chunk_rows);
  const Tensor losses = empty_losses(h), workspace = empty_workspace(h, weight, chunk_rows);
  for_each_chunk(h, weight, workspace, [&](const Chunk& chunk) {
    rows.losses(chunk.logits_RV, chunk.of(labels), ignored, {}, chunk.of(losses));
  });
  return {losses, workspace};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> linear_cross_entropy_statistics(const CrossEntropyRows& rows,
                                                                           const Tensor& h,
                                                                           const Tensor& weight,
                                                                           const Tensor& place,
                                                                           std::int64_t chunk_rows) {
  check(h, weight, place, chunk_rows);
  const Tensor largest = empty_losses(h), sum = empty_losses(h);
  const Tensor logit = at::empty({h.size(0), 1}, of_rows(h));
  const Tensor workspace = empty_workspace(h, weight, chunk_rows);
  for_each_chunk(h, weight, workspace, [&](const Chunk& chunk) {
    rows.statistics(chunk.logits_RV, chunk.of(place), chunk.of(largest), chunk.of(sum), chunk.of(logit));
  });
  return {largest, sum, logit, workspace};
}

std::tuple<Tensor, Tensor, Tensor> linear_cross_entropy_gradients(const CrossEntropyRows& rows,
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
    rows.gradients(chunk.logits_RV, chunk.of(place), chunk.of(largest), chunk.of(sum), chunk.of(gradient),
                   chunk.of(place_gradient));
    multiply_back(rows, chunk, weight, grad_h, grad_weight);
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

}  // namespace

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
    return linear_cross_entropy(kRows, h, weight, labels, gradient, ignored, chunk_rows);
  });
  m.impl("linear_cross_entropy_losses", [](const Tensor& h, const Tensor& weight, const Tensor& labels,
                                           std::int64_t ignored, std::int64_t chunk_rows) {
    return linear_cross_entropy_losses(kRows, h, weight, labels, ignored, chunk_rows);
  });
  m.impl("linear_cross_entropy_statistics",
         [](const Tensor& h, const Tensor& weight, const Tensor& place, std::int64_t chunk_rows) {
           return linear_cross_entropy_statistics(kRows, h, weight, place, chunk_rows);
         });
  m.impl(
      "linear_cross_entropy_gradients",
      [](const Tensor& h, const Tensor& weight, const Tensor& place, const Tensor& largest, const Tensor& sum,
         const Tensor& gradient, const Tensor& place_gradient, std::int64_t chunk_rows) {
        return linear_cross_entropy_gradients(kRows, h, weight, place, largest, sum, gradient, place_gradient,
                                              chunk_rows);
      });
}

}  // namespace rondo
