// A task of the CPU's kernels has all heads of a token. The backward sums the heads of a token's
// row as they come.
#include "ops/latent_keys/latent_keys.h"

#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <algorithm>
#include <vector>

#include "ops/kernel/check_operand.h"
#include "ops/kernel/element.h"
#include "ops/kernel/op_handle.h"
#include "ops/kernel/parallel_rows.h"
#include "ops/kernel/rows.h"
#include "ops/kernel/with_dtype.h"
#include "ops/latent_keys/latent_keys_math.h"
#include "support/error.h"

namespace rondo {
namespace {

using at::Tensor;

// The heads of x [B, S, H, D], whose last stride is 1.
template <class T>
struct Heads {
  explicit Heads(const Tensor& x)
      : data(x.const_data_ptr<T>()), time(x.size(1)), strides{x.stride(0), x.stride(1), x.stride(2)} {}
  const T* at(std::int64_t token, std::int64_t head) const {
    return data + token / time * strides[0] + token % time * strides[1] + head * strides[2];
  }
  const T* data;
  std::int64_t time, strides[3];
};

Tensor latent_keys_cpu(const Tensor& kv_in, const Tensor& rotated_in, std::int64_t plain) {
  const Tensor k = latent_keys_result(kv_in, rotated_in, plain);
  const Tensor kv = with_contiguous_rows(kv_in), rotated = with_contiguous_rows(rotated_in);
  const std::int64_t heads = k.size(2), width = k.size(3);
  with_dtype(k, "latent_keys", [&](auto type) {
    using T = decltype(type);
    const Heads<T> plain_parts(kv), rotated_part(rotated);
    T* const to = k.mutable_data_ptr<T>();
    for_each_row(k.size(0) * k.size(1), heads * width, [&](std::int64_t token) {
      const T* const shared = rotated_part.at(token, 0);
      for (std::int64_t head = 0; head < heads; ++head) {
        T* const key = to + (token * heads + head) * width;
        std::copy_n(plain_parts.at(token, head), plain, key);
        std::copy_n(shared, width - plain, key + plain);
      }
    });
  });
  return k;
}

// Sums `width` elements of each head into `to`, in the order of latent_keys.h.
template <class T>
void sum_heads(const Heads<T>& from, std::int64_t token, std::int64_t heads, std::int64_t first,
               std::int64_t width, T* to) {
  using Sum = SumOf<T>;
  std::vector<Sum> sums(static_cast<std::size_t>(2 * width));
  Sum* const of_group = sums.data();
  Sum* const of_groups = of_group + width;
  for (std::int64_t head = 0; head < heads; ++head) {
    const T* const row = from.at(token, head) + first;
    for (std::int64_t i = 0; i < width; ++i) of_group[i] += static_cast<Sum>(row[i]);
    if ((head + 1) % latent_keys::kGroup != 0) continue;
    for (std::int64_t i = 0; i < width; ++i) of_groups[i] += of_group[i];
    std::fill_n(of_group, width, Sum(0));
  }
  for (std::int64_t i = 0; i < width; ++i) to[i] = static_cast<T>(of_group[i] + of_groups[i]);
}

std::tuple<Tensor, Tensor> latent_keys_backward_cpu(const Tensor& grad_k_in, const Tensor& grad_v_in,
                                                    std::int64_t plain) {
  std::tuple<Tensor, Tensor> gradients = latent_keys_gradients(grad_k_in, grad_v_in, plain);
  const auto& [grad_kv, grad_rotated] = gradients;
  const Tensor grad_k = with_contiguous_rows(grad_k_in), grad_v = with_contiguous_rows(grad_v_in);
  const std::int64_t heads = grad_k.size(2), width = grad_kv.size(3), value = grad_v.size(3),
                     rotated = grad_rotated.size(3);
  with_dtype(grad_k, "latent_keys_backward", [&](auto type) {
    using T = decltype(type);
    const Heads<T> keys(grad_k), values(grad_v);
    T* const to = std::get<0>(gradients).template mutable_data_ptr<T>();
    T* const to_rotated = std::get<1>(gradients).template mutable_data_ptr<T>();
    for_each_row(grad_kv.size(0) * grad_kv.size(1), heads * width, [&](std::int64_t token) {
      for (std::int64_t head = 0; head < heads; ++head) {
        T* const row = to + (token * heads + head) * width;
        std::copy_n(keys.at(token, head), plain, row);
        std::copy_n(values.at(token, head), value, row + plain);
      }
      sum_heads(keys, token, heads, plain, rotated, to_rotated + token * rotated);
    });
  });
  return gradients;
}

struct LatentKeys : torch::autograd::Function<LatentKeys> {
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* context, const Tensor& kv,
                                                const Tensor& rotated, std::int64_t plain) {
    static const auto handle = op_handle<decltype(latent_keys_cpu)>("rondo::latent_keys");
    at::AutoDispatchBelowAutograd below_autograd;
    context->saved_data["plain"] = plain;
    return {handle.call(kv, rotated, plain), kv.narrow(3, plain, kv.size(3) - plain)};
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    static const auto handle = op_handle<decltype(latent_keys_backward_cpu)>("rondo::latent_keys_backward");
    auto [of_kv, of_rotated] = handle.call(gradients[0], gradients[1], context->saved_data["plain"].toInt());
    return {of_kv, of_rotated, {}};
  }
};

}  // namespace

KeysAndValues latent_keys_of(const Tensor& kv, const Tensor& rotated, std::int64_t plain) {
  const auto results = LatentKeys::apply(kv, rotated, plain);
  return {results[0], results[1]};
}

Tensor latent_keys_result(const Tensor& kv, const Tensor& rotated, std::int64_t plain) {
  check_float("latent_keys", "kv", kv);
  RONDO_ASSERT(kv.dim() == 4 && 0 < plain && plain <= kv.size(3),
               "latent_keys: kv must be [B, S, H, P + V] with P = plain > 0");
  const std::int64_t width = rotated.dim() == 4 ? rotated.size(3) : 1;
  check_operand("latent_keys", "rotated", rotated, {kv.size(0), kv.size(1), 1, width}, kv.scalar_type());
  return at::empty({kv.size(0), kv.size(1), kv.size(2), plain + width}, kv.options());
}

std::tuple<Tensor, Tensor> latent_keys_gradients(const Tensor& grad_k, const Tensor& grad_v,
                                                 std::int64_t plain) {
  check_float("latent_keys_backward", "grad_k", grad_k);
  RONDO_ASSERT(grad_k.dim() == 4 && 0 < plain && plain < grad_k.size(3),
               "latent_keys_backward: grad_k must be [B, S, H, P + R] with P = plain > 0 and R > 0");
  const std::int64_t batch = grad_k.size(0), time = grad_k.size(1), heads = grad_k.size(2);
  const std::int64_t value = grad_v.dim() == 4 ? grad_v.size(3) : 0;
  check_operand("latent_keys_backward", "grad_v", grad_v, {batch, time, heads, value}, grad_k.scalar_type());
  return {at::empty({batch, time, heads, plain + value}, grad_k.options()),
          at::empty({batch, time, 1, grad_k.size(3) - plain}, grad_k.options())};
}

TORCH_LIBRARY_FRAGMENT(rondo, m) {
  m.def("latent_keys(Tensor kv, Tensor rotated, int plain) -> Tensor");
  m.def("latent_keys_backward(Tensor grad_k, Tensor grad_v, int plain) -> (Tensor, Tensor)");
}
TORCH_LIBRARY_IMPL(rondo, Meta, m) {
  m.impl("latent_keys", &latent_keys_result);
  m.impl("latent_keys_backward", &latent_keys_gradients);
}
TORCH_LIBRARY_IMPL(rondo, CPU, m) {
  m.impl("latent_keys", &latent_keys_cpu);
  m.impl("latent_keys_backward", &latent_keys_backward_cpu);
}

}  // namespace rondo
