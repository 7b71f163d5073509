// Maps the floating-point dtypes of weights between their names: in LibTorch, the configuration,
// checkpoints (checkpoint/manifest.h) and safetensors files.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <string_view>

#include "checkpoint/safetensors/format.h"
#include "config/schema/choices.h"
#include "support/error.h"

namespace rondo {

struct FloatDtype {
  at::ScalarType type;
  Precision config;
  const char* stored;                      // "bf16"
  std::optional<safetensors::Dtype> file;  // nullopt: not read from files
};

inline constexpr FloatDtype kFloatDtypes[] = {
    {at::kDouble, Precision::float64, "f64", std::nullopt},
    {at::kFloat, Precision::float32, "f32", safetensors::Dtype::f32},
    {at::kBFloat16, Precision::bfloat16, "bf16", safetensors::Dtype::bf16},
    {at::kHalf, Precision::float16, "f16", safetensors::Dtype::f16},
};

inline at::ScalarType float_named(Precision precision) {
  for (const FloatDtype& dtype : kFloatDtypes)
    if (dtype.config == precision) return dtype.type;
  RONDO_ASSERT(false, "every precision has a dtype");
}

// Throws Error(checkpoint) if `stored` is not a dtype of weights.
inline at::ScalarType float_stored_as(std::string_view stored) {
  for (const FloatDtype& dtype : kFloatDtypes)
    if (dtype.stored == stored) return dtype.type;
  throw Error(ExitCode::checkpoint, "tensors of dtype " + std::string(stored) + " are not weights");
}

// REQUIRES: hugging_face::Folder::check accepted the file.
inline at::ScalarType float_in_file(safetensors::Dtype file) {
  for (const FloatDtype& dtype : kFloatDtypes)
    if (dtype.file == file) return dtype.type;
  RONDO_ASSERT(false, "the folder was checked");
}

inline const char* stored_name(at::ScalarType type) {
  for (const FloatDtype& dtype : kFloatDtypes)
    if (dtype.type == type) return dtype.stored;
  RONDO_ASSERT(false, "the state holds floating-point numbers");
}

}  // namespace rondo
