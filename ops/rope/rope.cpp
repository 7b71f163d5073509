#include "ops/rope/rope.h"

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
#include "ops/kernel/vectors.h"
#include "ops/kernel/with_dtype.h"
#include "ops/rope/rope_math.h"
#include "support/error.h"

namespace rondo {
namespace {

using at::Tensor;

// Rotates `half` pairs of a head; a negative `sign` rotates back.
template <class T, class Sum>
void turn_head(const T* from, rope::Pairs in, T* to, rope::Pairs out, const Sum* cos, const Sum* sin,
               Sum sign, std::int64_t half) {
  std::int64_t i = 0;
  for (; i + kVector <= half; i += kVector) {
    Vector<Sum> x, y, c, s;
    if (in.step == 2) {
      load_pairs(from + 2 * i, x, y);
    } else {
      load(from + i, x);
      load(from + i + half, y);
    }
    load(cos + i, c);
    load(sin + i, s);
    s *= sign;
    const rope::Pair<Vector<Sum>> turned = rope::apply_rotary<Vector<Sum>>(x, y, c, s);
    if (out.step == 2) {
      store_pairs(turned.first, turned.second, to + 2 * i);
    } else {
      store(turned.first, to + i);
      store(turned.second, to + i + half);
    }
  }
  for (; i < half; ++i) {
    const rope::Pair<Sum> turned =
        rope::apply_rotary(static_cast<Sum>(from[i * in.step]),
                           static_cast<Sum>(from[i * in.step + in.second]), cos[i], sign * sin[i]);
    to[i * out.step] = static_cast<T>(turned.first);
    to[i * out.step + out.second] = static_cast<T>(turned.second);
  }
}

Tensor rope_cpu(const Tensor& x_in, const Tensor& cos_in, const Tensor& sin_in, bool interleaved,
                bool inverse) {
  const Tensor y = rope_result(x_in, cos_in, sin_in);
  const Tensor x = with_contiguous_rows(x_in);
  const Tensor cos = cos_in.contiguous(), sin = sin_in.contiguous();
  const std::int64_t time = x.size(1), heads = x.size(2), width = x.size(3), half = cos.size(3);
  const std::int64_t rotated = 2 * half, plain = width - rotated;
  const std::int64_t row = x.stride(0), place = x.stride(1), apart = x.stride(2);
  const std::int64_t table_rows = cos.size(0) == 1 ? time : x.size(0) * time;
  const rope::Pairs in = rope::pairs(rotated, interleaved && !inverse);
  const rope::Pairs out = rope::pairs(rotated, interleaved && inverse);
  with_dtype(x, "rope", [&](auto type) {
    using T = decltype(type);
    using Sum = SumOf<T>;
    const Sum sign = inverse ? -1 : 1;
    const Sum* const cosines = cos.const_data_ptr<Sum>();
    const Sum* const sines = sin.const_data_ptr<Sum>();
    const T* const from = x.const_data_ptr<T>();
    T* const to = y.mutable_data_ptr<T>();
    for_each_row(x.size(0) * time, heads * width, [&](std::int64_t token) {
      const Sum* const c = cosines + token % table_rows * half;
      const Sum* const s = sines + token % table_rows * half;
      const T* const of_token = from + token / time * row + token % time * place;
      std::vector<T> before(static_cast<std::size_t>(from == to ? rotated : 0));
      for (std::int64_t head = 0; head < heads; ++head) {
        const T* const a = of_token + head * apart;
        T* const b = to + (token * heads + head) * width;
        if (from == to)
          std::copy_n(a + plain, rotated, before.data());
        else
          std::copy_n(a, plain, b);
        turn_head(from == to ? before.data() : a + plain, in, b + plain, out, c, s, sign, half);
      }
    });
  });
  return y;
}

Tensor call_rope(const Tensor& x, const Tensor& cos, const Tensor& sin, bool interleaved, bool inverse) {
  static const auto handle = op_handle<decltype(rope_cpu)>("rondo::rope");
  return handle.call(x, cos, sin, interleaved, inverse);
}

struct Rope : torch::autograd::Function<Rope> {
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& x, const Tensor& cos,
                        const Tensor& sin, bool interleaved, bool inverse) {
    at::AutoDispatchBelowAutograd below_autograd;
    context->save_for_backward({cos, sin});
    context->saved_data["interleaved"] = interleaved;
    context->saved_data["inverse"] = inverse;
    return call_rope(x, cos, sin, interleaved, inverse);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const bool interleaved = context->saved_data["interleaved"].toBool();
    const bool inverse = context->saved_data["inverse"].toBool();
    return {call_rope(gradients[0], saved[0], saved[1], interleaved, !inverse), {}, {}, {}, {}};
  }
};
Tensor rope_autograd(const Tensor& x, const Tensor& cos, const Tensor& sin, bool interleaved, bool inverse) {
  return Rope::apply(x, cos, sin, interleaved, inverse);
}

}  // namespace

Tensor rope_of(const Tensor& x, const Tensor& cos, const Tensor& sin, bool interleaved) {
  return call_rope(x, cos, sin, interleaved, /*inverse=*/false);
}

Tensor rope_result(const Tensor& x, const Tensor& cos, const Tensor& sin) {
  check_float("rope", "x", x);
  RONDO_ASSERT(x.dim() == 4, "rope: x must be [B, T, H, D]");
  const bool is_table = cos.dim() == 4;
  const std::int64_t tables = is_table && cos.size(0) == 1 ? 1 : x.size(0);
  const std::int64_t pairs = is_table ? std::min(cos.size(3), x.size(3) / 2) : x.size(3) / 2;
  check_operand("rope", "cos", cos, {tables, x.size(1), 1, pairs}, sum_dtype(x));
  check_operand("rope", "sin", sin, cos.sizes(), sum_dtype(x));
  return at::empty(x.sizes(), x.options());
}

TORCH_LIBRARY_FRAGMENT(rondo, m) {
  m.def("rope(Tensor x, Tensor cos, Tensor sin, bool interleaved, bool inverse) -> Tensor");
}
TORCH_LIBRARY_IMPL(rondo, Meta, m) {
  m.impl("rope", [](const Tensor& x, const Tensor& cos, const Tensor& sin, bool, bool) {
    return rope_result(x, cos, sin);
  });
}
TORCH_LIBRARY_IMPL(rondo, CPU, m) { m.impl("rope", &rope_cpu); }
TORCH_LIBRARY_IMPL(rondo, Autograd, m) { m.impl("rope", &rope_autograd); }

}  // namespace rondo
