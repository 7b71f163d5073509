// Normal draws, also truncated, into a tensor where it lies: initial weights (models/parts/initialize.h).
//
//   rondo::draw_(x!, std, low, width, seed, stream, first)
//     x[i] = std * quantile(low + width * u), u in (0, 1) out of Philox at the counter first + i
//
// x is f32, bf16 or f64 and contiguous. Draws are computed in f64 and rounded to f32, then to x's dtype.
// Formulas, sources and why every device has the same bits: normal_draws_math.h. One op, so that a device
// draws where its memory is. No autograd, no shape rule.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "ops/normal_draws/normal_draws_math.h"

namespace rondo {

// x[i] becomes the draw of element first + i.
void draw_normal(at::Tensor x, const NormalDraws& draws, std::int64_t first);

}  // namespace rondo
