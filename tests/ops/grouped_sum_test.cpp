// Biases of runs of rows, and sums of runs, on the CPU against plain ATen in f64.
#include "ops/grouped_sum/grouped_sum.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cmath>
#include <vector>

#include "tests/ops/op_case.h"

namespace rondo {
namespace {

using at::Tensor;

constexpr std::int64_t kRowsInRuns = 601;

Tensor ends_of(const std::vector<std::int32_t>& values) { return at::tensor(values, at::kInt); }
Tensor any_ends() {
  return GENERATE(as<Tensor>(), ends_of({3, 3, 80, 590}), ends_of({0, 0, 601, 601}), ends_of({0, 0, 0, 0}));
}

// The bias of each row; zeros after the last end.
Tensor by_row(const Tensor& bias_ED, const Tensor& ends) {
  std::vector<Tensor> parts;
  std::int64_t begin = 0;
  for (std::int64_t e = 0; e < ends.numel(); ++e) {
    const std::int64_t end = ends[e].item<std::int32_t>();
    parts.push_back(bias_ED[e].expand({end - begin, bias_ED.size(1)}));
    begin = end;
  }
  parts.push_back(at::zeros({kRowsInRuns - begin, bias_ED.size(1)}, bias_ED.options()));
  return at::cat(parts);
}

}  // namespace

TEST_CASE("each row gets the bias of its run, and its gradient is the sum of the run's rows") {
  const at::ScalarType dtype = any_dtype();
  const std::int64_t width = GENERATE(1, 67, 128);
  const Tensor ends = any_ends();
  const Tensor x = rows(GENERATE("contiguous", "apart"), kRowsInRuns, width, dtype),
               bias = rows("contiguous", ends.numel(), width, dtype);
  const Tensor x64 = wide(x), bias64 = wide(bias), y = x64 + by_row(bias64, ends);
  check_close(checked_call("grouped_add", {x, bias, ends})[0], y);
  y.backward(x64.detach());
  check_close(checked_call("grouped_sum", {x, ends})[0], bias64.grad());
}

TEST_CASE("rows after the last end add nothing to a sum, even nans") {
  const Tensor ends = ends_of({3, 3, 80, 590}), x = at::randn({kRowsInRuns, 5});
  const Tensor sums = call("grouped_sum", x, ends)[0];
  x.narrow(0, 590, kRowsInRuns - 590).fill_(std::nan(""));
  CHECK(at::equal(call("grouped_sum", x, ends)[0], sums));
}

TEST_CASE("autograd of grouped_add passes the gradient on, and sums it for the bias") {
  const Tensor ends = ends_of({3, 3, 80, 590}), grad = at::randn({kRowsInRuns, 7});
  const Tensor x = at::randn({kRowsInRuns, 7}).requires_grad_(), bias = at::randn({4, 7}).requires_grad_();
  grouped_add(x, bias, ends).backward(grad);
  CHECK(at::equal(x.grad(), grad));
  CHECK(at::equal(bias.grad(), grouped_sum(grad, ends)));
}

TEST_CASE("sums of runs are the same bits for any number of threads") {
  const Tensor x = at::randn({kRowsInRuns, 300}).to(at::kBFloat16), ends = ends_of({3, 3, 80, 590});
  check_same_with_threads([&] { return call("grouped_sum", x, ends); });
}

TEST_CASE("runs without rows or columns give empty or zero results") {
  const Tensor none = at::zeros({0, 8}), ends = ends_of({0, 0});
  CHECK(checked_call("grouped_add", {none, at::randn({2, 8}), ends})[0].numel() == 0);
  CHECK(at::equal(checked_call("grouped_sum", {none, ends})[0], at::zeros({2, 8})));
  CHECK(checked_call("grouped_sum", {at::zeros({4, 0}), ends})[0].numel() == 0);
}

TEST_CASE("grouped_add and grouped_sum refuse mismatched operands and runs") {
  const Tensor x = at::randn({kRowsInRuns, 7}), bias = at::randn({4, 7}), ends = ends_of({3, 3, 80, 590});
  check_refused("but x is Half", "grouped_add", {x.to(at::kHalf), bias, ends});
  check_refused("bias is Float [3, 7], but must be Float [4, 7]", "grouped_add",
                {x, bias.narrow(0, 0, 3), ends});
  check_refused("bias is BFloat16", "grouped_add", {x, bias.to(at::kBFloat16), ends});
  check_refused("ends is Long [4], but must be Int [4]", "grouped_sum", {x, ends.to(at::kLong)});
  for (const Tensor& wrong :
       {ends_of({3, 2, 80, 590}), ends_of({3, 3, 80, 602}), ends_of({-1, 3, 80, 590})}) {
    CHECK_THROWS(grouped_add(x, bias, wrong));
    CHECK_THROWS(grouped_sum(x, wrong));
  }
}

}  // namespace rondo
