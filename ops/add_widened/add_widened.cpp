#include "ops/add_widened/add_widened.h"

#include <torch/library.h>

#include <algorithm>
#include <type_traits>

#include "ops/kernel/check_operand.h"
#include "ops/kernel/element.h"
#include "ops/kernel/op_handle.h"
#include "ops/kernel/parallel_rows.h"
#include "ops/kernel/vectors.h"
#include "ops/kernel/with_dtype.h"
#include "support/error.h"

namespace rondo {
namespace {

using at::Tensor;

template <class T, class X>
void add_run(T* sum, const X* x, std::int64_t count) {
  using Sum = SumOf<T>;
  std::int64_t i = 0;
  if constexpr (std::is_same_v<Sum, SumOf<X>>) {
    for (; i + kVector <= count; i += kVector) {
      Vector<Sum> a, b;
      load(sum + i, a);
      load(x + i, b);
      a += b;
      store(a, sum + i);
    }
  }
  for (; i < count; ++i) sum[i] = static_cast<T>(static_cast<Sum>(sum[i]) + static_cast<Sum>(x[i]));
}

Tensor add_widened_cpu_(const Tensor& sum, const Tensor& x_in) {
  check_add_widened(sum, x_in);
  const Tensor x = x_in.contiguous();
  with_dtype(sum, "add_widened", [&](auto sum_type) {
    using T = decltype(sum_type);
    const auto add = [&](auto x_type) {
      using X = decltype(x_type);
      T* const to = sum.mutable_data_ptr<T>();
      const X* const from = x.const_data_ptr<X>();
      constexpr std::int64_t kRun = 4096;
      for_each_row((sum.numel() + kRun - 1) / kRun, kRun, [&](std::int64_t run) {
        add_run(to + run * kRun, from + run * kRun, std::min(kRun, sum.numel() - run * kRun));
      });
    };
    x.scalar_type() == at::kBFloat16 ? add(at::BFloat16()) : add(T());
  });
  return sum;
}
Tensor add_widened_meta_(const Tensor& sum, const Tensor& x) {
  check_add_widened(sum, x);
  return sum;
}
Tensor add_widened_of_copy(const Tensor& sum, const Tensor& x) {
  static const auto handle = op_handle<decltype(add_widened_cpu_)>("rondo::add_widened_");
  return handle.call(sum.clone(), x);
}

}  // namespace

void check_add_widened(const Tensor& sum, const Tensor& x) {
  check_float("add_widened", "sum", sum);
  RONDO_ASSERT(sum.is_contiguous(), "add_widened: the sum must be contiguous");
  check_operand("add_widened", "x", x, sum.sizes(),
                x.scalar_type() == at::kBFloat16 ? at::kBFloat16 : sum.scalar_type());
}

TORCH_LIBRARY_FRAGMENT(rondo, m) {
  m.def("add_widened(Tensor sum, Tensor x) -> Tensor");
  m.def("add_widened_(Tensor(a!) sum, Tensor x) -> Tensor(a!)");
}
TORCH_LIBRARY_IMPL(rondo, Meta, m) { m.impl("add_widened_", &add_widened_meta_); }
TORCH_LIBRARY_IMPL(rondo, CPU, m) { m.impl("add_widened_", &add_widened_cpu_); }
TORCH_LIBRARY_IMPL(rondo, CompositeExplicitAutograd, m) { m.impl("add_widened", &add_widened_of_copy); }

}  // namespace rondo
