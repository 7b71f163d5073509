// How attention's tensors lie: [B, T, heads, width] in memory, seen as [B, heads, T, width], on every device and by the
// shape rules. No autograd.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace rondo {

// For as many heads as `like` has, of its width or another.
at::Tensor empty_heads(const at::Tensor& like_BHTD, std::int64_t width);
at::Tensor empty_heads(const at::Tensor& like_BHTD);
// fp32, [B, T, H] seen as [B, H, T].
at::Tensor empty_logsumexp(const at::Tensor& q_BHTD);

// Each group's heads, as often as queries have heads of it; and the sum over them, for gradients.
at::Tensor repeat_groups(const at::Tensor& x_BGTD, std::int64_t heads);
at::Tensor sum_groups(const at::Tensor& grad_BHTD, const at::Tensor& like_BGTD);

// Zeros behind each head's elements change no product; kernels that want equal widths get them so.
at::Tensor widen(const at::Tensor& x_BHTD, std::int64_t width);
at::Tensor narrow_to(const at::Tensor& x_BHTD, std::int64_t width);

}  // namespace rondo
