// rondo::draw_: normal draws into a tensor, where it lies.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "ops/normal_draws/normal_draws_math.h"

namespace rondo {

// x[i] becomes the draw of element first + i. x: fp32, bf16 or fp64, contiguous, on the CPU or a CUDA device.
void draw_normal(at::Tensor x, const NormalDraws& draws, std::int64_t first);

}  // namespace rondo
