// The ops on every device, their shape rules, and the CPU kernels over rows.
//
// A block of a row's logits is widened, and its powers are computed and added while it is in the
// first-level cache. If a block has a larger logit than the blocks before it, the sum so far is
// rescaled (Milakov and Gimelshein 2018, arXiv 1805.02867). So memory is read once, and loops have
// neither calls nor branches. Sums are accumulated in a fixed number of lanes, enough that no
// addition waits for the previous one.
#include "ops/cross_entropy/cross_entropy.h"

#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <algorithm>
#include <limits>
#include <string>

#include "ops/cross_entropy/cross_entropy_math.h"
#include "ops/kernel/check_operand.h"
#include "ops/kernel/element.h"
#include "ops/kernel/op_handle.h"
#include "ops/kernel/parallel_rows.h"
#include "ops/kernel/vectors.h"
#include "ops/kernel/with_dtype.h"
#include "support/error.h"

namespace rondo {
namespace {

using at::Tensor;

// --- rows on the CPU ---

template <class Logit>
RowStatistics<SumOf<Logit>> statistics_of(const Logit* row, std::int64_t classes) {
  using T = SumOf<Logit>;
  constexpr std::int64_t kVectors = 8, kLanes = kVectors * kVector, kBlock = 1024;
  constexpr T kNone = -std::numeric_limits<T>::infinity();
  RowStatistics<T> all;
  T block[kBlock];
  Vector<T> sums[kVectors] = {};
  for (std::int64_t first = 0; first < classes; first += kBlock) {
    const std::int64_t count = std::min(kBlock, classes - first);
    const std::int64_t whole_lanes = (count + kLanes - 1) / kLanes * kLanes;
    for (std::int64_t v = 0; v < count; ++v) block[v] = static_cast<T>(row[first + v]);
    for (std::int64_t v = count; v < whole_lanes; ++v) block[v] = kNone;

    Vector<T> largest[kVectors];
    for (Vector<T>& one : largest) one = Vector<T>{} + all.largest;
    for (std::int64_t v = 0; v < whole_lanes; v += kLanes)
      for (std::int64_t i = 0; i < kVectors; ++i) {
        Vector<T> logits;
        load(block + v + i * kVector, logits);
        largest[i] = logits > largest[i] ? logits : largest[i];
      }
    T of_block = all.largest;
    for (const Vector<T>& one : largest)
      for (std::int64_t lane = 0; lane < kVector; ++lane) of_block = std::max(of_block, one[lane]);
    if (of_block > all.largest) {
      const T shrunk = exponential(all.largest - of_block);
      for (Vector<T>& sum : sums) sum *= shrunk;
      all.largest = of_block;
    }

    const T base = all.largest == kNone ? T(0) : all.largest;  // only -inf so far: no power of it
    for (std::int64_t v = 0; v < whole_lanes; ++v) block[v] = exponential(block[v] - base);
    for (std::int64_t v = 0; v < whole_lanes; v += kLanes)
      for (std::int64_t i = 0; i < kVectors; ++i) {
        Vector<T> powers;
        load(block + v + i * kVector, powers);
        sums[i] += powers;
      }
  }
  for (const Vector<T>& sum : sums)
    for (std::int64_t lane = 0; lane < kVector; ++lane) all.sum += sum[lane];
  return all;
}

template <class Logit>
SumOf<Logit> logit_at(const Logit* row, std::int64_t place, std::int64_t classes) {
  using T = SumOf<Logit>;
  return is_class(place, classes) ? static_cast<T>(row[place]) : std::numeric_limits<T>::quiet_NaN();
}

// Turns a row's logits into gradients. A place that is no class gets no gradient of its own: the
// loss is then a nan and stops the step.
template <class T>
struct RowGradient {
  T largest, scale, of_place;
  std::int64_t place;

  // `to` may be `row`.
  template <class Logit>
  void write(const Logit* row, std::int64_t classes, Logit* to) const {
    const bool has_place = is_class(place, classes);
    const T at_place = has_place ? at(row[place]) - of_place : T(0);
#pragma GCC ivdep
    for (std::int64_t v = 0; v < classes; ++v) to[v] = static_cast<Logit>(at(row[v]));
    if (has_place) to[place] = static_cast<Logit>(at_place);
  }

 private:
  template <class Logit>
  T at(Logit logit) const {
    return logit_gradient(static_cast<T>(logit), largest, scale);
  }
};

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
      if (of_each == nullptr) return;
      const RowGradient<T> of_row{statistics.largest, row_scale(*of_each, statistics.sum), *of_each,
                                  labels[r]};
      of_row.write(row, classes, row);
    });
  });
}

void statistics_cpu(const Tensor& logits_RV, const Tensor& place_R, const Tensor& largest_R,
                    const Tensor& sum_R, const Tensor& logit_R) {
  with_dtype(logits_RV, "cross_entropy", [&](auto type) {
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
      Logit* const row = logits + r * classes;
      const RowGradient<T> of_row{largest[r], row_scale(gradient[r], sums[r]), place_gradient[r], places[r]};
      of_row.write(row, classes, row);
    });
  });
}

void total_cpu(const Tensor& largest_R, const Tensor& sum_R, const Tensor& logit_R, const Tensor& labels_R,
               std::int64_t ignored, const Tensor& loss) {
  with_dtype(loss, "cross_entropy", [&](auto type) {
    using T = decltype(type);
    using Sum = SumOf<T>;
    const auto* const labels = labels_R.const_data_ptr<std::int64_t>();
    const T* const largest = largest_R.const_data_ptr<T>();
    const T* const sums = sum_R.const_data_ptr<T>();
    const T* const logits = logit_R.const_data_ptr<T>();
    double total = 0;
    for (std::int64_t r = 0; r < labels_R.numel(); ++r)
      if (labels[r] != ignored)
        total += row_loss(RowStatistics<Sum>{largest[r], sums[r]}, static_cast<Sum>(logits[r]));
    *loss.data_ptr<T>() = static_cast<T>(total);
  });
}

void backward_cpu(const Tensor& grad, const Tensor& logits_RV, const Tensor& labels_R,
                  const Tensor& largest_R, const Tensor& sum_R, std::int64_t ignored,
                  const Tensor& grad_logits_RV) {
  with_dtype(logits_RV, "cross_entropy_backward", [&](auto type) {
    using Logit = decltype(type);
    using T = SumOf<Logit>;
    const std::int64_t classes = logits_RV.size(1);
    const Logit* const logits = logits_RV.const_data_ptr<Logit>();
    Logit* const gradients = grad_logits_RV.data_ptr<Logit>();
    const auto* const labels = labels_R.const_data_ptr<std::int64_t>();
    const T* const largest = largest_R.const_data_ptr<T>();
    const T* const sums = sum_R.const_data_ptr<T>();
    const T of_each = *grad.const_data_ptr<T>();
    for_each_row(logits_RV.size(0), classes, [&](std::int64_t r) {
      Logit* const to = gradients + r * classes;
      if (labels[r] == ignored) {
        std::fill_n(to, classes, Logit(0));
        return;
      }
      const RowGradient<T> of_row{largest[r], row_scale(of_each, sums[r]), of_each, labels[r]};
      of_row.write(logits + r * classes, classes, to);
    });
  });
}

}  // namespace

constexpr CrossEntropyRows kCrossEntropyOnCpu{&losses_cpu, &statistics_cpu, &gradients_cpu, &total_cpu,
                                              &backward_cpu};

// --- on every device ---

namespace {

void check_cross_entropy(const char* op, const Tensor& logits, const Tensor& labels) {
  check_float(op, "logits", logits);
  RONDO_ASSERT(logits.dim() == 2 && logits.is_contiguous(),
               std::string(op) + ": logits must be contiguous rows");
  check_operand(op, "labels", labels, {logits.size(0)}, at::kLong);
}

Tensor empty_sums(const Tensor& logits, at::IntArrayRef sizes) {
  return at::empty(sizes, logits.options().dtype(sum_dtype(logits)));
}

std::tuple<Tensor, Tensor, Tensor> forward_results(const Tensor& logits, const Tensor& labels, std::int64_t) {
  check_cross_entropy("cross_entropy", logits, labels);
  const std::int64_t rows = logits.size(0);
  return {empty_sums(logits, {}), empty_sums(logits, {rows}), empty_sums(logits, {rows})};
}

Tensor backward_result(const Tensor& grad, const Tensor& logits, const Tensor& labels, const Tensor& largest,
                       const Tensor& sum, std::int64_t) {
  constexpr const char* kOp = "cross_entropy_backward";
  check_cross_entropy(kOp, logits, labels);
  check_operand(kOp, "grad", grad, {}, sum_dtype(logits));
  check_operand(kOp, "largest", largest, {logits.size(0)}, sum_dtype(logits));
  check_operand(kOp, "sum", sum, {logits.size(0)}, sum_dtype(logits));
  return at::empty(logits.sizes(), logits.options());
}

struct CrossEntropyLoss : torch::autograd::Function<CrossEntropyLoss> {
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* context,
                                                const Tensor& logits, const Tensor& labels,
                                                std::int64_t ignored) {
    static const auto handle = op_handle<decltype(forward_results)>("rondo::cross_entropy");
    at::AutoDispatchBelowAutograd below_autograd;
    auto [loss, largest, sum] = handle.call(logits, labels, ignored);
    context->save_for_backward({logits, labels, largest, sum});
    context->saved_data["ignored"] = ignored;
    context->mark_non_differentiable({largest, sum});
    // largest and sum have no gradients; no zeros replace them
    context->set_materialize_grads(false);
    return {loss, largest, sum};
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    static const auto handle = op_handle<decltype(backward_result)>("rondo::cross_entropy_backward");
    const auto saved = context->get_saved_variables();
    return {handle.call(gradients[0], saved[0], saved[1], saved[2], saved[3],
                        context->saved_data["ignored"].toInt()),
            {},
            {}};
  }
};
std::tuple<Tensor, Tensor, Tensor> cross_entropy_autograd(const Tensor& logits, const Tensor& labels,
                                                          std::int64_t ignored) {
  const auto results = CrossEntropyLoss::apply(logits, labels, ignored);
  return {results[0], results[1], results[2]};
}

}  // namespace

Tensor cross_entropy_of(const Tensor& logits, const Tensor& labels, std::int64_t ignored) {
  static const auto handle = op_handle<decltype(forward_results)>("rondo::cross_entropy");
  return std::get<0>(handle.call(logits, labels, ignored));
}

std::tuple<Tensor, Tensor, Tensor> cross_entropy(const CrossEntropyRows& rows, const Tensor& logits,
                                                 const Tensor& labels_in, std::int64_t ignored) {
  auto results = forward_results(logits, labels_in, ignored);
  const auto& [loss, largest, sum] = results;
  const Tensor labels = labels_in.contiguous(), of_label = empty_sums(logits, {logits.size(0)});
  rows.statistics(logits, labels, largest, sum, of_label);
  rows.total(largest, sum, of_label, labels, ignored, loss);
  return results;
}

Tensor cross_entropy_backward(const CrossEntropyRows& rows, const Tensor& grad, const Tensor& logits,
                              const Tensor& labels, const Tensor& largest, const Tensor& sum,
                              std::int64_t ignored) {
  const Tensor result = backward_result(grad, logits, labels, largest, sum, ignored);
  rows.backward(grad, logits, labels.contiguous(), largest.contiguous(), sum.contiguous(), ignored, result);
  return result;
}

TORCH_LIBRARY_FRAGMENT(rondo, m) {
  m.def(
      "cross_entropy(Tensor logits, Tensor labels, int ignored) -> (Tensor loss, Tensor largest, Tensor "
      "sum)");
  m.def(
      "cross_entropy_backward(Tensor grad, Tensor logits, Tensor labels, Tensor largest, Tensor sum, int "
      "ignored) -> Tensor grad_logits");
}
TORCH_LIBRARY_IMPL(rondo, Meta, m) {
  m.impl("cross_entropy", &forward_results);
  m.impl("cross_entropy_backward", &backward_result);
}
TORCH_LIBRARY_IMPL(rondo, CPU, m) {
  m.impl("cross_entropy", [](const Tensor& logits, const Tensor& labels, std::int64_t ignored) {
    return cross_entropy(kCrossEntropyOnCpu, logits, labels, ignored);
  });
  m.impl("cross_entropy_backward", [](const Tensor& grad, const Tensor& logits, const Tensor& labels,
                                      const Tensor& largest, const Tensor& sum, std::int64_t ignored) {
    return cross_entropy_backward(kCrossEntropyOnCpu, grad, logits, labels, largest, sum, ignored);
  });
}
TORCH_LIBRARY_IMPL(rondo, Autograd, m) { m.impl("cross_entropy", &cross_entropy_autograd); }

}  // namespace rondo
