// Converts heads to the layouts of the kernels in attention_library.cpp, and results to the layouts
// of ops/attention/attention.h. Tensors that have the layout are not copied.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace rondo {

// Returns the view [B, T, H, D].
at::Tensor by_token(const at::Tensor& x_BHTD);

// Returns the elements of an int32 tensor.
std::int32_t* int32_data(const at::Tensor& x);

// Returns heads that kernels can read 16 bytes at a time: contiguous elements, nothing expanded.
at::Tensor readable(const at::Tensor& x_BHTD);

// Returns the tensor in the layout of empty_heads.
at::Tensor as_planned(const at::Tensor& x_BHTD);

// repeat_groups repeats each group's head for the query heads of the group. sum_groups sums over
// them, for gradients.
at::Tensor repeat_groups(const at::Tensor& x_BGTD, std::int64_t heads);
at::Tensor sum_groups(const at::Tensor& grad_BHTD, const at::Tensor& like_BGTD);

// Pads or cuts each head. Zeros after the elements change no product; they serve kernels that
// require equal widths.
at::Tensor widen(const at::Tensor& x_BHTD, std::int64_t width);
at::Tensor narrow_to(const at::Tensor& x_BHTD, std::int64_t width);

}  // namespace rondo
