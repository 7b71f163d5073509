// The dtypes of checkpoints (trainer/checkpoint/manifest.h) as LibTorch's.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <string_view>

#include "parallel/error.h"

namespace rondo {

inline at::ScalarType at_dtype(std::string_view stored) {
  if (stored == "f64") return at::kDouble;
  if (stored == "f32") return at::kFloat;
  if (stored == "bf16") return at::kBFloat16;
  if (stored == "f16") return at::kHalf;
  throw Error(ExitCode::checkpoint, "tensors of dtype " + std::string(stored) + " are no weights");
}

inline const char* stored_dtype(at::ScalarType dtype) {
  RONDO_ASSERT(dtype == at::kDouble || dtype == at::kFloat || dtype == at::kBFloat16 || dtype == at::kHalf,
               "the state holds floating-point numbers");
  return dtype == at::kDouble ? "f64" : dtype == at::kFloat ? "f32" : dtype == at::kBFloat16 ? "bf16" : "f16";
}

}  // namespace rondo
