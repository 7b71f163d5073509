// One matrix product per run, written to a slice of the result. The result is uninitialized, so the
// rows after the last run and the matrices of empty runs are zeroed here. Products by rows and by
// columns are the same op; the number of dimensions of b distinguishes them.
#include "ops/grouped_mm/grouped_mm.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <torch/library.h>

#include "ops/kernel/op_handle.h"
#include "support/error.h"

namespace rondo {
namespace {

using at::Tensor;

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

}  // namespace

Tensor grouped_mm_result(const Tensor& a, const Tensor& b, const Tensor& ends) {
  if (b.dim() == 3) return at::empty({a.size(0), b.size(2)}, a.options());
  return at::empty({ends.size(0), a.size(0), b.size(1)}, a.options());
}

Tensor grouped_mm(const Tensor& a, const Tensor& b, const Tensor& ends) {
  static const auto handle = op_handle<decltype(grouped_mm_cpu)>("rondo::grouped_mm");
  return handle.call(a, b, ends);
}

TORCH_LIBRARY_FRAGMENT(rondo, m) { m.def("grouped_mm(Tensor a, Tensor b, Tensor ends) -> Tensor"); }
TORCH_LIBRARY_IMPL(rondo, CPU, m) { m.impl("grouped_mm", &grouped_mm_cpu); }
TORCH_LIBRARY_IMPL(rondo, Meta, m) { m.impl("grouped_mm", &grouped_mm_result); }

}  // namespace rondo
