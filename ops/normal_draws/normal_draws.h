// Draws normal numbers, optionally truncated, into a tensor in place: initial weights
// (models/parts/initialize.h).
//
//   rondo::draw_(x!, std, low, width, seed, stream, first)
//     x[i] = std * quantile(low + width * u), u in (0, 1) by Philox at the counter first + i
//
// x is f32, bf16 or f64 and contiguous. Draws are computed in f64 and rounded to f32, then to x's
// dtype. normal_draws_math.h has the formulas, their sources, and why all devices give the same
// bits. Not differentiable; has no shape rule.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "ops/normal_draws/normal_draws_math.h"

namespace rondo {

// Sets x[i] to the draw of element first + i.
void draw_normal(at::Tensor x, const NormalDraws& draws, std::int64_t first);

}  // namespace rondo
