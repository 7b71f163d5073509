// Products by every proposed algorithm, with operands in the layouts of a step.
#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include "ops/matmul/matmul.h"
#include "tests/cuda/kernel_case.h"

namespace rondo {
namespace {

// Returns [rows, columns] with dense rows or dense columns, as part of wider ones.
Tensor laid_out(const Tensor& x, bool dense_rows, const Place& place) {
  constexpr std::int64_t kBefore = 8, kBehind = 16;
  const Tensor source = dense_rows ? x : x.t();
  const Tensor wide = at::zeros({source.size(0), kBefore + source.size(1) + kBehind}, at::kDouble);
  wide.narrow(1, kBefore, source.size(1)).copy_(source);
  const Tensor inside = at_place(wide, place).narrow(1, kBefore, source.size(1));
  return dense_rows ? inside : inside.t();
}

MatmulShape shape_of(const Tensor& a, const Tensor& b, bool adds) {
  return {{a.size(0), a.size(1)},
          {a.stride(0), a.stride(1)},
          {b.size(0), b.size(1)},
          {b.stride(0), b.stride(1)},
          adds};
}

}  // namespace

void check_matmul(Checks& checks, c10::Device device) {
  constexpr std::int64_t kRows = 72, kInner = 136, kColumns = 40;
  const Inputs draw(at::kBFloat16);
  const Tensor a = draw.normal({kRows, kInner}), b = draw.normal({kInner, kColumns}),
               sum = draw.normal({kRows, kColumns});
  const Place there{device, at::kBFloat16};
  for (const bool a_rows : {true, false})
    for (const bool b_rows : {true, false})
      for (const bool adds : {false, true}) {
        std::vector<std::string> algorithms = {""};
        if (device.is_cuda()) {
          algorithms.clear();
          const MatmulShape shape = shape_of(laid_out(a, a_rows, there), laid_out(b, b_rows, there), adds);
          for (const MeasuredAlgorithm& one : measure_matmul(shape, device).algorithms)
            algorithms.push_back(to_text(one.algorithm));
        }
        for (std::size_t i = 0; i < algorithms.size(); ++i)
          check(checks, device,
                {fmt::format("{}, a by {}, b by {}, algorithm {} of {}", adds ? "addmm" : "mm",
                             a_rows ? "rows" : "columns", b_rows ? "rows" : "columns", i + 1,
                             algorithms.size()),
                 adds ? "addmm" : "mm", at::kBFloat16, at::kDouble, 2 * rounding(at::kBFloat16), true,
                 [=, text = algorithms[i]](const Place& p) {
                   const Tensor left = laid_out(a, a_rows, p), right = laid_out(b, b_rows, p);
                   if (!adds) return call("mm", left, right, text);
                   Tensors both = call("addmm", at_place(sum, p), left, right, text);
                   both.push_back(call("addmm_", at_place(sum.clone(), p), left, right, text)[0]);
                   return both;
                 }});
      }
}

}  // namespace rondo
