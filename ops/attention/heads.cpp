#include "ops/attention/heads.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/sum.h>

namespace rondo {

using at::Tensor;

Tensor empty_heads(const Tensor& like_BHTD, std::int64_t width) {
  const auto s = like_BHTD.sizes();
  return at::empty({s[0], s[2], s[1], width}, like_BHTD.options()).transpose(1, 2);
}
Tensor empty_heads(const Tensor& like_BHTD) { return empty_heads(like_BHTD, like_BHTD.size(3)); }
Tensor empty_logsumexp(const Tensor& q_BHTD) {
  const auto s = q_BHTD.sizes();
  return at::empty({s[0], s[2], s[1]}, q_BHTD.options().dtype(at::kFloat)).transpose(1, 2);
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
