// What of attention_choice.h only the device knows.
#pragma once

#include <ATen/core/Tensor.h>

#include "ops/attention/attention_choice.h"

namespace rondo::cuda {

// The case of heads of such a type and such widths on a device, as LibTorch is set up now (deterministic or not).
AttentionCase attention_case(at::ScalarType type, std::int64_t width, std::int64_t value_width,
                             std::int64_t tokens, bool documents, c10::DeviceIndex device);

}  // namespace rondo::cuda
