// The arithmetic of a cross-entropy over one row of logits (ops/cross_entropy/cross_entropy.h),
// shared by CPU and CUDA. No LibTorch.
//
// With logits x of V classes, m their maximum and s = sum(exp(x - m)): loss = log(s) - (x[label] -
// m). Its gradient is exp(x - m) / s, minus 1 at the label. Logits are computed in SumOf their
// type: f32 and bf16 in float, f64 in double.
#pragma once

#include <cmath>
#include <cstdint>

#include "ops/kernel/device.h"
#include "ops/kernel/exponential.h"

namespace rondo {

// Statistics of the logits so far, in one sweep (Milakov and Gimelshein 2018, arXiv 1805.02867):
// the maximum, and the sum of exp(logit - largest). A nan or +inf makes the sum, or results
// computed from it, a nan.
template <class T>
struct RowStatistics {
  T largest = -INFINITY;
  T sum = 0;

  RONDO_DEVICE inline void add(T logit) {
    if (logit > largest) {
      sum = sum * exponential(largest - logit) + 1;
      largest = logit;
    } else if (logit != -INFINITY) {
      sum += exponential(logit - largest);
    }
  }
  RONDO_DEVICE inline void add(const RowStatistics& other) {
    if (other.sum == 0) return;  // only -inf, if anything
    if (other.largest > largest) {
      sum = sum * exponential(largest - other.largest) + other.sum;
      largest = other.largest;
    } else {
      sum += other.sum * exponential(other.largest - largest);
    }
  }
};

// `label_logit` is the logit of the label, or a nan if the label is no class, so that the step
// counts as non-finite.
template <class T>
RONDO_DEVICE inline T row_loss(const RowStatistics<T>& row, T label_logit) {
  return std::log(row.sum) - (label_logit - row.largest);
}

// Returns the factor of exp(x - largest) in the gradient of every logit of a row. `gradient` is
// that of the row's loss.
template <class T>
RONDO_DEVICE inline T row_scale(T gradient, T sum) {
  return gradient / sum;
}

template <class T>
RONDO_DEVICE inline T logit_gradient(T logit, T largest, T scale) {
  return exponential(logit - largest) * scale;
}

RONDO_DEVICE inline bool is_class(std::int64_t label, std::int64_t classes) {
  return label >= 0 && label < classes;
}

}  // namespace rondo
