// The arithmetic of a cross-entropy over one row of logits (ops/cross_entropy/cross_entropy.h): what CPU and
// CUDA share. No LibTorch.
//
// With logits x of V classes, m their largest and s = sum(exp(x - m)): loss = log(s) - (x[label] - m), and
// its gradient is exp(x - m) / s, less 1 at the label. Logits are computed in SumOf their type: f32 and bf16
// in float, f64 in double.
#pragma once

#include <cmath>
#include <cstdint>

#include "ops/kernel/device.h"
#include "ops/kernel/exponential.h"

namespace rondo {

// Of the logits seen so far, in one sweep (Milakov and Gimelshein 2018, arXiv 1805.02867): the largest, and
// the sum of exp(logit - largest). A nan or +inf makes the sum a nan, or what is computed with it.
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
    if (other.sum == 0) return;  // nothing but -inf, if anything
    if (other.largest > largest) {
      sum = sum * exponential(largest - other.largest) + other.sum;
      largest = other.largest;
    } else {
      sum += other.sum * exponential(other.largest - largest);
    }
  }
};

// `label_logit`: of a label among the classes; a nan for any other, so that the step counts as one that is
// not finite.
template <class T>
RONDO_DEVICE inline T row_loss(const RowStatistics<T>& row, T label_logit) {
  return std::log(row.sum) - (label_logit - row.largest);
}

// What multiplies exp(x - largest) in the gradient of every logit of a row whose loss has the gradient
// `gradient`.
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
