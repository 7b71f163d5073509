// Maps the dtype of a tensor to the element type of kernels.
#pragma once

#include <ATen/core/Tensor.h>

#include "ops/kernel/element.h"

namespace rondo {

// REQUIRES: f32, bf16 or f64.
inline cuda::Element element_of(const at::Tensor& x) {
  if (x.scalar_type() == at::kBFloat16) return cuda::Element::bf16;
  return x.scalar_type() == at::kFloat ? cuda::Element::f32 : cuda::Element::f64;
}

}  // namespace rondo
