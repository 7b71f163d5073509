#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/ops/addmm.h>
#include <torch/library.h>

#include <algorithm>
#include <limits>

#include "ops/linear_cross_entropy/linear_cross_entropy_math.h"
#include "ops/linear_cross_entropy/linear_cross_entropy.h"

namespace rondo {
namespace {

using at::Tensor;

// Rows are long: each is worth a task.
template <class F>
void for_each_row(const Tensor& logits_RV, F&& f) {
  at::parallel_for(0, logits_RV.size(0), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) f(row);
  });
}

// Sixteen sums at once, as a sum of all in a row would round too often.
template <class Logit>
RowStatistics<Computed<Logit>> statistics_of(const Logit* row, std::int64_t classes) {
  constexpr std::int64_t kLanes = 16;
  RowStatistics<Computed<Logit>> lanes[kLanes];
  for (std::int64_t v = 0; v < classes; ++v) lanes[v % kLanes].add(static_cast<Computed<Logit>>(row[v]));
  for (std::int64_t lane = 1; lane < kLanes; ++lane) lanes[0].add(lanes[lane]);
  return lanes[0];
}

template <class Logit>
Computed<Logit> logit_at(const Logit* row, std::int64_t place, std::int64_t classes) {
  using T = Computed<Logit>;
  return is_class(place, classes) ? static_cast<T>(row[place]) : std::numeric_limits<T>::quiet_NaN();
}

// A place that is no class gets no gradient of its own: the loss is a nan and stops the step.
template <class Logit>
void overwrite_by_gradient(Logit* row, std::int64_t classes, std::int64_t place, Computed<Logit> largest,
                           Computed<Logit> scale, Computed<Logit> place_gradient) {
  using T = Computed<Logit>;
  for (std::int64_t v = 0; v < classes; ++v) {
    const T gradient = logit_gradient(static_cast<T>(row[v]), largest, scale);
    row[v] = static_cast<Logit>(v == place ? gradient - place_gradient : gradient);
  }
}

template <class Logit>
void losses_of(const Tensor& logits_RV, const Tensor& labels_R, std::int64_t ignored, const Tensor& gradient,
               const Tensor& losses_R) {
  using T = Computed<Logit>;
  const std::int64_t classes = logits_RV.size(1);
  auto* const logits = logits_RV.data_ptr<Logit>();
  const auto* const labels = labels_R.const_data_ptr<std::int64_t>();
  auto* const losses = losses_R.data_ptr<T>();
  const T* const of_each = gradient.defined() ? gradient.const_data_ptr<T>() : nullptr;
  for_each_row(logits_RV, [&](std::int64_t r) {
    Logit* const row = logits + r * classes;
    if (labels[r] == ignored) {
      losses[r] = 0;
      if (of_each != nullptr) std::fill_n(row, classes, Logit(0));
      return;
    }
    const auto statistics = statistics_of(row, classes);
    losses[r] = row_loss(statistics, logit_at(row, labels[r], classes));
    if (of_each != nullptr)
      overwrite_by_gradient(row, classes, labels[r], statistics.largest, row_scale(*of_each, statistics.sum),
                            *of_each);
  });
}

void losses(const Tensor& logits_RV, const Tensor& labels_R, std::int64_t ignored, const Tensor& gradient,
            const Tensor& losses_R) {
  AT_DISPATCH_FLOATING_TYPES_AND(at::kBFloat16, logits_RV.scalar_type(), "linear_cross_entropy", [&] {
    losses_of<scalar_t>(logits_RV, labels_R, ignored, gradient, losses_R);
  });
}

template <class Logit>
void statistics_of(const Tensor& logits_RV, const Tensor& place_R, const Tensor& largest_R,
                   const Tensor& sum_R, const Tensor& logit_R) {
  using T = Computed<Logit>;
  const std::int64_t classes = logits_RV.size(1);
  const auto* const logits = logits_RV.const_data_ptr<Logit>();
  const auto* const places = place_R.const_data_ptr<std::int64_t>();
  auto* const largest = largest_R.data_ptr<T>();
  auto* const sums = sum_R.data_ptr<T>();
  auto* const of_place = logit_R.data_ptr<T>();
  for_each_row(logits_RV, [&](std::int64_t r) {
    const Logit* const row = logits + r * classes;
    const auto statistics = statistics_of(row, classes);
    largest[r] = statistics.largest;
    sums[r] = statistics.sum;
    of_place[r] = logit_at(row, places[r], classes);
  });
}

void statistics(const Tensor& logits_RV, const Tensor& place_R, const Tensor& largest_R, const Tensor& sum_R,
                const Tensor& logit_R) {
  AT_DISPATCH_FLOATING_TYPES_AND(
      at::kBFloat16, logits_RV.scalar_type(), "linear_cross_entropy_statistics",
      [&] { statistics_of<scalar_t>(logits_RV, place_R, largest_R, sum_R, logit_R); });
}

template <class Logit>
void gradients_of(const Tensor& logits_RV, const Tensor& place_R, const Tensor& largest_R,
                  const Tensor& sum_R, const Tensor& gradient_R, const Tensor& place_gradient_R) {
  using T = Computed<Logit>;
  const std::int64_t classes = logits_RV.size(1);
  auto* const logits = logits_RV.data_ptr<Logit>();
  const auto* const places = place_R.const_data_ptr<std::int64_t>();
  const T* const largest = largest_R.const_data_ptr<T>();
  const T* const sums = sum_R.const_data_ptr<T>();
  const T* const gradient = gradient_R.const_data_ptr<T>();
  const T* const place_gradient = place_gradient_R.const_data_ptr<T>();
  for_each_row(logits_RV, [&](std::int64_t r) {
    overwrite_by_gradient(logits + r * classes, classes, places[r], largest[r],
                          row_scale(gradient[r], sums[r]), place_gradient[r]);
  });
}

void gradients(const Tensor& logits_RV, const Tensor& place_R, const Tensor& largest_R, const Tensor& sum_R,
               const Tensor& gradient_R, const Tensor& place_gradient_R) {
  AT_DISPATCH_FLOATING_TYPES_AND(
      at::kBFloat16, logits_RV.scalar_type(), "linear_cross_entropy_gradients",
      [&] { gradients_of<scalar_t>(logits_RV, place_R, largest_R, sum_R, gradient_R, place_gradient_R); });
}

// No product of bf16 on the CPU leaves its sums in f32, so its operands are widened first.
void add_product(const Tensor& sum_VD, const Tensor& logits_RV, const Tensor& h_RD) {
  Tensor sum = sum_VD;
  const at::ScalarType dtype = sum.scalar_type();
  at::addmm_out(sum, sum, logits_RV.to(dtype).t(), h_RD.to(dtype));
}

constexpr CrossEntropyRows kRows{&losses, &statistics, &gradients, &add_product};

}  // namespace

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
