// One matrix product per run, written to a slice of the result. The result is uninitialized, so the
// rows after the last run and the matrices of empty runs are zeroed here. Both gradients are the
// same op: that of x is a product by rows, that of the weights one by columns. The number of
// dimensions of b distinguishes them.
#include "ops/grouped_mm/grouped_mm.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "ops/kernel/op_handle.h"
#include "support/error.h"

namespace rondo {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

Tensor grouped_mm_cpu(const Tensor& a, const Tensor& b, const Tensor& ends_E) {
  const bool by_rows = b.dim() == 3;
  const std::int64_t rows = by_rows ? a.size(0) : a.size(1);
  const Tensor ends = ends_E.contiguous();
  RONDO_ASSERT(!by_rows || b.size(0) == ends.numel(), "grouped_mm: b must have one matrix per run");
  Tensor result = grouped_mm_result(a, b, ends);
  std::int64_t begin = 0;
  for (std::int64_t e = 0; e < ends.numel(); ++e) {
    const std::int64_t end = ends.const_data_ptr<std::int32_t>()[e], count = end - begin;
    RONDO_ASSERT(begin <= end && end <= rows,
                 "grouped_mm: ends must be non-decreasing and at most the number of rows");
    if (by_rows) {
      Tensor part = result.narrow(0, begin, count);
      if (count > 0) at::mm_out(part, a.narrow(0, begin, count), b.select(0, e));
    } else {
      Tensor part = result.select(0, e);
      if (count > 0)
        at::mm_out(part, a.narrow(1, begin, count), b.narrow(0, begin, count));
      else
        part.zero_();
    }
    begin = end;
  }
  if (by_rows) result.narrow(0, begin, rows - begin).zero_();
  return result;
}

struct GroupedLinear : torch::autograd::Function<GroupedLinear> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weight, const Tensor& ends,
                        bool inputs_first) {
    at::AutoDispatchBelowAutograd below_autograd;
    context->save_for_backward({x, weight, ends});
    context->saved_data["inputs_first"] = inputs_first;
    return grouped_mm(x, inputs_first ? weight : weight.transpose(1, 2), ends);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const bool inputs_first = context->saved_data["inputs_first"].toBool();
    const variable_list saved = context->get_saved_variables();
    const Tensor &x = saved[0], &weight = saved[1], &ends = saved[2], &gradient = gradients[0];
    const Tensor grad_x = grouped_mm(gradient, inputs_first ? weight.transpose(1, 2) : weight, ends);
    // A transposed gradient would be copied to the layout of the weight.
    const Tensor grad_weight =
        inputs_first ? grouped_mm(x.t(), gradient, ends) : grouped_mm(gradient.t(), x, ends);
    return {grad_x, grad_weight, {}, {}};
  }
};

}  // namespace

Tensor grouped_mm_result(const Tensor& a, const Tensor& b, const Tensor& ends) {
  if (b.dim() == 3) return at::empty({a.size(0), b.size(2)}, a.options());
  return at::empty({ends.size(0), a.size(0), b.size(1)}, a.options());
}

Tensor grouped_mm(const Tensor& a, const Tensor& b, const Tensor& ends) {
  static const auto handle = op_handle<decltype(grouped_mm_cpu)>("rondo::grouped_mm");
  return handle.call(a, b, ends);
}

Tensor grouped_linear(const Tensor& x, const Tensor& weight, const Tensor& ends, bool inputs_first) {
  return GroupedLinear::apply(x, weight, ends, inputs_first);
}

TORCH_LIBRARY_FRAGMENT(rondo, m) { m.def("grouped_mm(Tensor a, Tensor b, Tensor ends) -> Tensor"); }
TORCH_LIBRARY_IMPL(rondo, CPU, m) { m.impl("grouped_mm", &grouped_mm_cpu); }
TORCH_LIBRARY_IMPL(rondo, Meta, m) { m.impl("grouped_mm", &grouped_mm_result); }

}  // namespace rondo
