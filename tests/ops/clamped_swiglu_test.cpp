// The clamped swiglu on the CPU against its formula in f64, forward and backward.
#include "ops/swiglu/clamped_swiglu.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cmath>
#include <limits>

#include "tests/ops/op_case.h"

namespace rondo {
namespace {

using at::Tensor;

constexpr double kLimit = 7.0, kSlope = 1.702;

Tensor count_of(std::int64_t rows) { return at::full({}, rows, at::kInt); }

}  // namespace

TEST_CASE("the clamped swiglu and its backward follow the formula, within the limit and beyond it") {
  const at::ScalarType dtype = any_dtype();
  const Tensor gate_up = rows(GENERATE("contiguous", "apart"), 37, 262, dtype) * 5;
  const Tensor grad = rows("contiguous", 37, 131, dtype), pairs = wide(gate_up);
  const std::vector<Tensor> halves = pairs.view({37, 131, 2}).unbind(-1);
  // Not at::clamp, whose gradient at a limit depends on LibTorch's version.
  const auto at_most = [](const Tensor& x) { return at::where(x > kLimit, kLimit, x); };
  const Tensor gate = at_most(halves[0]), up = -at_most(-at_most(halves[1]));
  const Tensor y = (up + 1) * gate * at::sigmoid(kSlope * gate);
  check_close(checked_call("clamped_swiglu", {gate_up, count_of(37), kLimit, kSlope})[0], y);
  y.backward(grad.to(at::kDouble));
  check_close(checked_call("clamped_swiglu_backward", {grad, gate_up, count_of(37), kLimit, kSlope})[0],
              pairs.grad());
}

TEST_CASE(
    "rows of the clamped swiglu from the count on are not read and are zero, the others have the same bits") {
  const std::int64_t count = GENERATE(0, 3, 7, 9), filled = std::min<std::int64_t>(count, 7);
  const auto dtype = any_dtype();
  const Tensor gate_up = rows("apart", 7, 42, dtype), grad = rows("apart", 7, 21, dtype);
  Tensor y = call("clamped_swiglu", gate_up, count_of(7), kLimit, kSlope)[0],
         gradient = call("clamped_swiglu_backward", grad, gate_up, count_of(7), kLimit, kSlope)[0];
  for (const Tensor& x : {y, gradient}) x.narrow(0, filled, 7 - filled).zero_();
  for (const Tensor& x : {gate_up, grad}) x.narrow(0, filled, 7 - filled).fill_(std::nan(""));
  CHECK(at::equal(checked_call("clamped_swiglu", {gate_up, count_of(count), kLimit, kSlope})[0], y));
  CHECK(
      at::equal(checked_call("clamped_swiglu_backward", {grad, gate_up, count_of(count), kLimit, kSlope})[0],
                gradient));
}

TEST_CASE("the clamped swiglu passes gradients at the limit, clamps infinities and keeps nans") {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor pairs = at::tensor({7.0, -7.0, inf, inf, 1.0, -inf, nan, 0.0}, at::kDouble).view({4, 2});
  const Tensor y = call("clamped_swiglu", pairs, count_of(4), kLimit, kSlope)[0];
  CHECK(
      y[1][0].item<double>() ==
      call("clamped_swiglu", at::full_like(pairs, 7.0), count_of(4), kLimit, kSlope)[0][0][0].item<double>());
  CHECK(y[3][0].isnan().item<bool>());
  const Tensor gradient = call("clamped_swiglu_backward", at::full({4, 1}, 1.0, at::kDouble), pairs,
                               count_of(4), kLimit, kSlope)[0];
  CHECK(gradient[0][0].item<double>() != 0);
  CHECK(gradient[0][1].item<double>() != 0);
  CHECK(gradient[1][0].item<double>() == 0);
  CHECK(gradient[1][1].item<double>() == 0);
  CHECK(gradient[2][1].item<double>() == 0);
}

TEST_CASE("autograd of the clamped swiglu calls its backward") {
  const Tensor gate_up = rows("apart", 5, 66, at::kFloat).requires_grad_(), grad = at::randn({5, 33});
  clamped_swiglu(gate_up, count_of(3), kLimit, kSlope).backward(grad);
  CHECK(at::equal(gate_up.grad(),
                  call("clamped_swiglu_backward", grad, gate_up.detach(), count_of(3), kLimit, kSlope)[0]));
}

TEST_CASE("the clamped swiglu gives the same bits for any number of threads, and at every position") {
  const at::ScalarType dtype = any_dtype();
  const Tensor gate_up = (at::randn({301, 192}) * 5).to(dtype), grad = at::randn({301, 96}).to(dtype);
  check_same_with_threads(
      [&] { return call("clamped_swiglu_backward", grad, gate_up, count_of(301), kLimit, kSlope); });
  const Tensor y = call("clamped_swiglu", gate_up, count_of(301), kLimit, kSlope)[0];
  for (std::int64_t first = 1; first < 96; ++first) {
    const Tensor rest = gate_up.narrow(1, 2 * first, 192 - 2 * first);
    CHECK(at::equal(call("clamped_swiglu", rest, count_of(301), kLimit, kSlope)[0],
                    y.narrow(1, first, 96 - first)));
  }
}

TEST_CASE("the clamped swiglu refuses unsupported operands, and accepts empty ones") {
  const Tensor x = at::randn({3, 8});
  check_refused("but gate_up is Half", "clamped_swiglu", {x.to(at::kHalf), count_of(3), kLimit, kSlope});
  check_refused("gate_up must have rows of pairs", "clamped_swiglu",
                {x.narrow(1, 0, 7), count_of(3), kLimit, kSlope});
  check_refused("grad is Float [3, 8], but must be Float [3, 4]", "clamped_swiglu_backward",
                {x, x, count_of(3), kLimit, kSlope});
  CHECK(checked_call("clamped_swiglu", {x.narrow(0, 0, 0), count_of(0), kLimit, kSlope})[0].sizes() ==
        at::IntArrayRef{0, 4});
}

}  // namespace rondo
