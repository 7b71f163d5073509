// Products of runs of rows on the CPU against one product per run, forward and backward.
#include "ops/grouped_mm/grouped_mm.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <vector>

#include "ops/grouped_mm/grouped_linear.h"
#include "support/error.h"
#include "tests/ops/op_case.h"

namespace rondo {
namespace {

using at::Tensor;
using Tensors = std::vector<Tensor>;

constexpr std::int64_t kRows = 11, kInner = 7, kColumns = 5, kGroups = 4;

Tensor ints(const std::vector<std::int32_t>& values) { return at::tensor(values, at::kInt); }

// Calls f(run, begin, rows) for each run.
template <class F>
Tensors for_each_run(const Tensor& ends, const F& f) {
  Tensors results;
  std::int64_t begin = 0;
  for (std::int64_t e = 0; e < kGroups; ++e) {
    const std::int64_t end = ends[e].item<std::int32_t>();
    results.push_back(f(e, begin, end - begin));
    begin = end;
  }
  return results;
}

}  // namespace

TEST_CASE("grouped_mm is one product per run, with empty runs and zeros after the last") {
  const Tensor ends = GENERATE(as<Tensor>(), ints({3, 3, 8, 9}), ints({0, 0, 11, 11}), ints({0, 0, 0, 0}));
  const at::ScalarType dtype = GENERATE(at::kFloat, at::kDouble);
  const auto drawn = [&](at::IntArrayRef sizes) { return at::randn(sizes, dtype); };
  const std::int64_t filled = ends[kGroups - 1].item<std::int32_t>();

  const Tensor a = drawn({kRows, kInner}), b = drawn({kGroups, kInner, kColumns});
  Tensors products = for_each_run(ends, [&](std::int64_t e, std::int64_t begin, std::int64_t rows) {
    return a.narrow(0, begin, rows).matmul(b[e]);
  });
  products.push_back(at::zeros({kRows - filled, kColumns}, dtype));
  CHECK(at::allclose(checked_call("grouped_mm", {a, b, ends})[0], at::cat(products), 1e-5, 1e-6));

  const Tensor left = drawn({kInner, kRows}), right = drawn({kRows, kColumns});
  const Tensors sums = for_each_run(ends, [&](std::int64_t, std::int64_t begin, std::int64_t rows) {
    return left.narrow(1, begin, rows).matmul(right.narrow(0, begin, rows));
  });
  CHECK(at::allclose(checked_call("grouped_mm", {left, right, ends})[0], at::stack(sums), 1e-5, 1e-6));
}

TEST_CASE("the gradients of grouped_linear are those of one linear layer per run") {
  const Tensor ends = ints({3, 3, 8, 9});
  const bool inputs_first = GENERATE(false, true);
  const Tensor x = wide(at::randn({kRows, kInner})), drawn = at::randn({kGroups, kColumns, kInner});
  const Tensor weight = wide(inputs_first ? drawn.transpose(1, 2).contiguous() : drawn);
  const Tensor x_copy = wide(x), weight_copy = wide(drawn), grad = at::randn({kRows, kColumns}, at::kDouble);
  grouped_linear(x, weight, ends, inputs_first).backward(grad);
  Tensors parts = for_each_run(ends, [&](std::int64_t e, std::int64_t begin, std::int64_t rows) {
    return at::linear(x_copy.narrow(0, begin, rows), weight_copy[e]);
  });
  parts.push_back(at::zeros({kRows - 9, kColumns}, at::kDouble));
  at::cat(parts).backward(grad);
  CHECK(at::allclose(x.grad(), x_copy.grad()));
  CHECK(at::allclose(weight.grad(), inputs_first ? weight_copy.grad().transpose(1, 2) : weight_copy.grad()));
  CHECK(weight.grad().is_contiguous());
}

TEST_CASE("grouped_mm refuses mismatched runs") {
  const Tensor a = at::randn({kRows, kInner}), b = at::randn({kGroups, kInner, kColumns});
  CHECK_THROWS_AS(grouped_mm(a, b, ints({3, 3, 8})), Error);
  CHECK_THROWS_AS(grouped_mm(a, b, ints({3, 2, 8, 9})), Error);
  CHECK_THROWS_AS(grouped_mm(a, b, ints({3, 3, 8, 12})), Error);
}

}  // namespace rondo
