// Heads as the kernels want them that attention_library.cpp calls, and results as ops/attention/attention.h
// has them. What is so already is not copied.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace rondo {

// [B, T, H, D]: a view.
at::Tensor by_token(const at::Tensor& x_BHTD);

// The elements of a tensor of i32.
std::int32_t* int32_data(const at::Tensor& x);

// Heads that kernels can read 16 bytes at a time: elements side by side, nothing expanded.
at::Tensor readable(const at::Tensor& x_BHTD);

// Laid out as empty_heads is.
at::Tensor as_planned(const at::Tensor& x_BHTD);

// Each group's heads, as often as queries have heads of it; and the sum over them, for gradients.
at::Tensor repeat_groups(const at::Tensor& x_BGTD, std::int64_t heads);
at::Tensor sum_groups(const at::Tensor& grad_BHTD, const at::Tensor& like_BGTD);

// Zeros behind each head's elements change no product; kernels that want equal widths get them so.
at::Tensor widen(const at::Tensor& x_BHTD, std::int64_t width);
at::Tensor narrow_to(const at::Tensor& x_BHTD, std::int64_t width);

}  // namespace rondo
