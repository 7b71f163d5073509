#include "ops/attention/attention_heads.h"

#include <ATen/ops/sum.h>

#include <algorithm>

#include "ops/attention/attention.h"

namespace rondo {

using at::Tensor;

Tensor by_token(const Tensor& x_BHTD) { return x_BHTD.transpose(1, 2); }

std::int32_t* int32_data(const Tensor& x) { return x.mutable_data_ptr<std::int32_t>(); }

Tensor readable(const Tensor& x_BHTD) {
  const std::int64_t aligned =
      std::max<std::int64_t>(1, 16 / static_cast<std::int64_t>(x_BHTD.element_size()));
  bool good = x_BHTD.stride(3) == 1 && reinterpret_cast<std::uintptr_t>(x_BHTD.const_data_ptr()) % 16 == 0;
  for (int dim = 0; dim < 3; ++dim)
    if (x_BHTD.size(dim) > 1) good = good && x_BHTD.stride(dim) > 0 && x_BHTD.stride(dim) % aligned == 0;
  return good ? x_BHTD : empty_heads(x_BHTD).copy_(x_BHTD);
}

Tensor as_planned(const Tensor& x_BHTD) {
  Tensor planned = empty_heads(x_BHTD);
  return planned.strides() == x_BHTD.strides() ? x_BHTD : planned.copy_(x_BHTD);
}

Tensor repeat_groups(const Tensor& x_BGTD, std::int64_t heads) {
  const auto s = x_BGTD.sizes();
  if (s[1] == heads) return x_BGTD;
  return x_BGTD.unsqueeze(2)
      .expand({s[0], s[1], heads / s[1], s[2], s[3]})
      .reshape({s[0], heads, s[2], s[3]});
}
Tensor sum_groups(const Tensor& grad_BHTD, const Tensor& like_BGTD) {
  const auto s = like_BGTD.sizes();
  if (grad_BHTD.size(1) == s[1]) return grad_BHTD;
  Tensor result = empty_heads(like_BGTD);
  const Tensor grouped = grad_BHTD.unflatten(1, {s[1], grad_BHTD.size(1) / s[1]});
  at::sum_out(result, grouped, at::IntArrayRef{2});
  return result;
}

Tensor widen(const Tensor& x_BHTD, std::int64_t width) {
  const std::int64_t own = x_BHTD.size(3);
  if (own == width) return x_BHTD;
  Tensor wide = empty_heads(x_BHTD, width);
  wide.narrow(3, 0, own).copy_(x_BHTD);
  wide.narrow(3, own, width - own).zero_();
  return wide;
}
Tensor narrow_to(const Tensor& x_BHTD, std::int64_t width) {
  if (x_BHTD.size(3) == width) return x_BHTD;
  return empty_heads(x_BHTD, width).copy_(x_BHTD.narrow(3, 0, width));
}

}  // namespace rondo
