// The floating-point dtypes of weights under all their names: LibTorch's, the configuration's, those of
// checkpoints (checkpoint/manifest.h) and of safetensors files.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <string_view>

#include "checkpoint/safetensors/format.h"
#include "support/error.h"

namespace rondo {

struct FloatDtype {
  at::ScalarType type;
  std::string_view config;                 // "bfloat16"
  const char* stored;                      // "bf16"
  std::optional<safetensors::Dtype> file;  // none: no weights are read from it
};

inline constexpr FloatDtype kFloatDtypes[] = {
    {at::kDouble, "float64", "f64", std::nullopt},
    {at::kFloat, "float32", "f32", safetensors::Dtype::f32},
    {at::kBFloat16, "bfloat16", "bf16", safetensors::Dtype::bf16},
    {at::kHalf, "float16", "f16", safetensors::Dtype::f16},
};

// REQUIRES a name that a key of the configuration allows.
inline at::ScalarType float_named(std::string_view config_name) {
  for (const FloatDtype& dtype : kFloatDtypes)
    if (dtype.config == config_name) return dtype.type;
  RONDO_ASSERT(false, "the name of the dtype was checked");
}

// Throws Error(checkpoint) for what is no dtype of weights.
inline at::ScalarType float_stored_as(std::string_view stored) {
  for (const FloatDtype& dtype : kFloatDtypes)
    if (dtype.stored == stored) return dtype.type;
  throw Error(ExitCode::checkpoint, "tensors of dtype " + std::string(stored) + " are no weights");
}

// REQUIRES a file that hugging_face::Folder::check passed.
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
