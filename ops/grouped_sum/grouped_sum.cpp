// A bias for runs of rows, and sums of runs: checks, shape rules, and CPU kernels. A thread takes
// rows of the result of grouped_add, and 64 columns of a run in grouped_sum, whose sums fit in the
// first cache.
#include "ops/grouped_sum/grouped_sum.h"

#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <algorithm>
#include <cstdint>

#include "ops/grouped_sum/grouped_sum_math.h"
#include "ops/kernel/check_operand.h"
#include "ops/kernel/element.h"
#include "ops/kernel/op_handle.h"
#include "ops/kernel/parallel_rows.h"
#include "ops/kernel/with_dtype.h"
#include "support/error.h"

namespace rondo {
namespace {

using at::Tensor;
using grouped_sum_order::kRowsOfTile, grouped_sum_order::kSumsOfTile;

void check_ends(const std::int32_t* ends, std::int64_t runs, std::int64_t rows) {
  RONDO_ASSERT(std::is_sorted(ends, ends + runs) && (runs == 0 || (ends[0] >= 0 && ends[runs - 1] <= rows)),
               "grouped_sum: ends must be non-decreasing and at most the number of rows");
}

Tensor grouped_add_cpu(const Tensor& x_in, const Tensor& bias_in, const Tensor& ends_in) {
  const Tensor result = grouped_add_result(x_in, bias_in, ends_in);
  const Tensor x = x_in.contiguous(), bias = bias_in.contiguous(), ends_E = ends_in.contiguous();
  const std::int64_t width = x.size(1), runs = ends_E.numel();
  const auto* const ends = ends_E.const_data_ptr<std::int32_t>();
  check_ends(ends, runs, x.size(0));
  with_dtype(x, "grouped_add", [&](auto type) {
    using T = decltype(type);
    using Sum = SumOf<T>;
    const T *const from = x.const_data_ptr<T>(), *const biases = bias.const_data_ptr<T>();
    T* const to = result.mutable_data_ptr<T>();
    for_each_row(x.size(0), width, [&](std::int64_t row) {
      const std::int64_t run = std::upper_bound(ends, ends + runs, row) - ends;
      const T* const in = from + row * width;
      T* const out = to + row * width;
      if (run == runs) {
        std::copy(in, in + width, out);
        return;
      }
      const T* const b = biases + run * width;
#pragma GCC ivdep
      for (std::int64_t d = 0; d < width; ++d)
        out[d] = static_cast<T>(static_cast<Sum>(in[d]) + static_cast<Sum>(b[d]));
    });
  });
  return result;
}

constexpr std::int64_t kColumns = 64;

// Writes the sums of `columns` columns, at most kColumns, of the rows [begin, end) to `to`.
template <class T>
void sum_rows(const T* x, std::int64_t width, std::int64_t begin, std::int64_t end, std::int64_t columns,
              T* to) {
  using Sum = SumOf<T>;
  Sum total[kColumns] = {};
  for (std::int64_t tile = begin; tile < end; tile += kRowsOfTile) {
    Sum sums[kSumsOfTile][kColumns] = {};
    for (std::int64_t row = tile; row < std::min(tile + kRowsOfTile, end); ++row) {
      Sum* const sum = sums[(row - tile) % kSumsOfTile];
      for (std::int64_t d = 0; d < columns; ++d) sum[d] += static_cast<Sum>(x[row * width + d]);
    }
    for (int i = 1; i < kSumsOfTile; ++i)
      for (std::int64_t d = 0; d < columns; ++d) sums[0][d] += sums[i][d];
    for (std::int64_t d = 0; d < columns; ++d) total[d] += sums[0][d];
  }
  for (std::int64_t d = 0; d < columns; ++d) to[d] = static_cast<T>(total[d]);
}

Tensor grouped_sum_cpu(const Tensor& x_in, const Tensor& ends_in) {
  const Tensor result = grouped_sum_result(x_in, ends_in);
  const Tensor x = x_in.contiguous(), ends_E = ends_in.contiguous();
  const std::int64_t width = x.size(1), runs = ends_E.numel(), pieces = (width + kColumns - 1) / kColumns;
  const auto* const ends = ends_E.const_data_ptr<std::int32_t>();
  check_ends(ends, runs, x.size(0));
  with_dtype(x, "grouped_sum", [&](auto type) {
    using T = decltype(type);
    const T* const from = x.const_data_ptr<T>();
    T* const to = result.mutable_data_ptr<T>();
    for_each_row(runs * pieces, x.size(0) * kColumns / std::max<std::int64_t>(runs, 1), [&](std::int64_t i) {
      const std::int64_t run = i / pieces, first = i % pieces * kColumns;
      sum_rows(from + first, width, run == 0 ? 0 : ends[run - 1], ends[run],
               std::min(kColumns, width - first), to + run * width + first);
    });
  });
  return result;
}

Tensor call_grouped_add(const Tensor& x, const Tensor& bias, const Tensor& ends) {
  static const auto handle = op_handle<decltype(grouped_add_cpu)>("rondo::grouped_add");
  return handle.call(x, bias, ends);
}

struct GroupedAdd : torch::autograd::Function<GroupedAdd> {
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& x, const Tensor& bias,
                        const Tensor& ends) {
    at::AutoDispatchBelowAutograd below_autograd;
    context->save_for_backward({ends});
    return call_grouped_add(x, bias, ends);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    return {gradients[0], grouped_sum(gradients[0], context->get_saved_variables()[0]), {}};
  }
};

}  // namespace

Tensor grouped_add(const Tensor& x, const Tensor& bias, const Tensor& ends) {
  return GroupedAdd::apply(x, bias, ends);
}

Tensor grouped_sum(const Tensor& x, const Tensor& ends) {
  static const auto handle = op_handle<decltype(grouped_sum_cpu)>("rondo::grouped_sum");
  return handle.call(x, ends);
}

Tensor grouped_add_result(const Tensor& x, const Tensor& bias, const Tensor& ends) {
  check_float("grouped_add", "x", x);
  check_operand("grouped_add", "bias", bias, {ends.size(0), x.size(1)}, x.scalar_type());
  check_operand("grouped_add", "ends", ends, {ends.size(0)}, at::kInt);
  return at::empty(x.sizes(), x.options());
}

Tensor grouped_sum_result(const Tensor& x, const Tensor& ends) {
  check_float("grouped_sum", "x", x);
  check_operand("grouped_sum", "ends", ends, {ends.size(0)}, at::kInt);
  return at::empty({ends.size(0), x.size(1)}, x.options());
}

TORCH_LIBRARY_FRAGMENT(rondo, m) {
  m.def("grouped_add(Tensor x, Tensor bias, Tensor ends) -> Tensor");
  m.def("grouped_sum(Tensor x, Tensor ends) -> Tensor");
}
TORCH_LIBRARY_IMPL(rondo, CPU, m) {
  m.impl("grouped_add", &grouped_add_cpu);
  m.impl("grouped_sum", &grouped_sum_cpu);
}
TORCH_LIBRARY_IMPL(rondo, Meta, m) {
  m.impl("grouped_add", &grouped_add_result);
  m.impl("grouped_sum", &grouped_sum_result);
}

}  // namespace rondo
