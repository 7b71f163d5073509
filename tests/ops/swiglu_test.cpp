// swiglu on the CPU against its formula in f64, forward and backward.
#include "ops/swiglu/swiglu.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/silu.h>

#include <bit>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cmath>

#include "ops/kernel/exponential.h"
#include "tests/ops/op_case.h"

namespace rondo {
namespace {

using at::Tensor;
using Tensors = std::vector<Tensor>;

}  // namespace

TEST_CASE("swiglu and its backward follow the formula, and keep infinities and nans") {
  const at::ScalarType dtype = any_dtype();
  const Tensor gate = rows(GENERATE("contiguous", "apart", "transposed"), 37, 131, dtype) * 4;
  const Tensor up = rows("apart", 37, 131, dtype), grad = rows("contiguous", 37, 131, dtype);
  const Tensor gate64 = wide(gate), up64 = wide(up);
  const Tensor y = at::silu(gate64) * up64;
  check_close(checked_call("swiglu", {gate, up})[0], y);
  y.backward(grad.to(at::kDouble));
  const Tensors gradients = checked_call("swiglu_backward", {grad, gate, up});
  check_close(gradients[0], gate64.grad());
  check_close(gradients[1], up64.grad());
  CHECK(at::equal(checked_call("swiglu_backward_joined", {grad, gate, up})[0], at::cat(gradients, -1)));

  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  for (double special : {inf, -inf, nan, 1e30, -1e30, 0.0}) {
    INFO(special);
    const Tensor at_special = at::ones_like(gate) * special;
    CHECK(at::allclose(call("swiglu", at_special, up)[0], at::silu(at_special) * up, 1e-2, 1e-2, true));
  }
}

TEST_CASE("rows of swiglu from the count on are not read and are zero, and the others have the same bits") {
  const std::int64_t count = GENERATE(0, 3, 7);
  const auto dtype = any_dtype();
  const Tensor filled = at::full({}, count, at::kInt);
  Tensor grad = rows("apart", 7, 21, dtype), gate = rows("contiguous", 7, 21, dtype),
         up = rows("apart", 7, 21, dtype);
  Tensor y = call("swiglu", gate, up)[0];
  Tensors gradients = call("swiglu_backward", grad, gate, up);
  for (Tensor* x : {&y, &gradients[0], &gradients[1]}) x->narrow(0, count, 7 - count).zero_();
  for (Tensor* x : {&grad, &gate, &up}) x->narrow(0, count, 7 - count).fill_(std::nan(""));
  CHECK(at::equal(checked_call("swiglu_rows", {gate, up, filled})[0], y));
  const Tensors of_rows = checked_call("swiglu_rows_backward", {grad, gate, up, filled});
  for (std::size_t i = 0; i < 2; ++i) CHECK(at::equal(of_rows[i], gradients[i]));
  gate.requires_grad_(true);
  up = up.detach().clone().requires_grad_(true);
  swiglu_of(gate, up, filled).backward(grad);
  CHECK(at::equal(gate.grad(), gradients[0]));
  CHECK(at::equal(up.grad(), gradients[1]));
}

TEST_CASE("autograd of swiglu calls its backward") {
  const Tensor gate = rows("apart", 5, 33, at::kFloat).requires_grad_();
  const Tensor up = rows("contiguous", 5, 33, at::kFloat).requires_grad_(), grad = at::randn({5, 33});
  swiglu_of(gate, up).backward(grad);
  const Tensors expected = call("swiglu_backward", grad, gate.detach(), up.detach());
  CHECK(at::equal(gate.grad(), expected[0]));
  CHECK(at::equal(up.grad(), expected[1]));
}

TEST_CASE("an element of swiglu has the same bits at every position") {
  const at::ScalarType dtype = any_dtype();
  const Tensor gate = at::randn({1, 67}).to(dtype) * 4, up = at::randn({1, 67}).to(dtype);
  const Tensor y = call("swiglu", gate, up)[0];
  const Tensors gradients = call("swiglu_backward", y, gate, up);
  for (std::int64_t first = 1; first < 67; ++first) {
    const auto rest = [&](const Tensor& x) { return x.narrow(1, first, 67 - first); };
    CHECK(at::equal(call("swiglu", rest(gate), rest(up))[0], rest(y)));
    const Tensors of_rest = call("swiglu_backward", rest(y), rest(gate), rest(up));
    CHECK(at::equal(of_rest[0], rest(gradients[0])));
    CHECK(at::equal(of_rest[1], rest(gradients[1])));
  }
}

// A test of all 2^32 inputs found at most 0.991 ulp.
TEST_CASE("the exponential is within one ulp, and has the limits of the library's") {
  double most = 0;
  for (std::uint32_t bits = 0; bits < 0xff000000; bits += 6007) {
    const auto x = std::bit_cast<float>(bits);
    const double expected = std::exp(static_cast<double>(x));
    if (expected < std::numeric_limits<float>::min() || expected > std::numeric_limits<float>::max())
      continue;
    const double ulp = std::ldexp(1.0, std::ilogb(expected) - 23);
    most = std::max(most, std::abs(exponential(x) - expected) / ulp);
  }
  CHECK(most > 0.5);
  CHECK(most <= 1);
  const float infinity = std::numeric_limits<float>::infinity();
  CHECK(exponential(0.0F) == 1);
  CHECK(exponential(-infinity) == 0);
  CHECK(exponential(-104.1F) == 0);
  CHECK(exponential(infinity) == infinity);
  CHECK(exponential(88.8F) == infinity);
  CHECK(std::isnan(exponential(std::numeric_limits<float>::quiet_NaN())));
}

TEST_CASE("swiglu of scalars gives scalars") {
  const Tensor x = at::randn({});
  CHECK(checked_call("swiglu", {x, x})[0].dim() == 0);
  CHECK(checked_call("swiglu_backward", {x, x, x})[1].dim() == 0);
  check_refused("swiglu_backward_joined: gate must have at least one dimension", "swiglu_backward_joined",
                {x, x, x});
}

TEST_CASE("swiglu of empty tensors gives empty tensors") {
  const Tensor x = at::randn({0, 8});
  CHECK(checked_call("swiglu", {x, x})[0].numel() == 0);
  CHECK(checked_call("swiglu_backward", {x, x, x})[0].numel() == 0);
  CHECK(checked_call("swiglu_backward_joined", {x, x, x})[0].sizes() == at::IntArrayRef{0, 16});
}

TEST_CASE("swiglu gives the same bits for any number of threads") {
  const Tensor x = at::randn({301, 96}).to(at::kBFloat16), grad = at::randn({301, 96}).to(at::kBFloat16);
  check_same_with_threads([&] { return call("swiglu_backward", grad, x, grad); });
}

TEST_CASE("swiglu refuses unsupported operands") {
  const Tensor x = at::randn({2, 4}).to(at::kHalf);
  check_refused("but gate is Half", "swiglu", {x, x});
  check_refused("but gate is Half", "swiglu_backward", {x, x, x});
}

TEST_CASE("swiglu refuses mismatched operands and names them") {
  const Tensor x = at::randn({3, 4}), narrow = x.to(at::kBFloat16), flat = at::randn({12});
  check_refused("up is BFloat16 [3, 4], but must be Float [3, 4]", "swiglu", {x, narrow});
  check_refused("up is Float [12]", "swiglu", {x, flat});
  check_refused("up is Float [12]", "swiglu_backward", {x, x, flat});
  check_refused("grad is Float [12]", "swiglu_backward", {flat, x, x});
  check_refused("grad is BFloat16 [3, 4]", "swiglu_backward", {narrow, x, x});
  check_refused("swiglu_backward_joined: grad is Float [12]", "swiglu_backward_joined", {flat, x, x});
}

}  // namespace rondo
