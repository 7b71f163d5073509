// rms_norm on the CPU against its formula in f64, forward and backward.
#include "ops/rms_norm/rms_norm.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/rsqrt.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "tests/ops/op_case.h"

namespace rondo {
namespace {

using at::Tensor;
using Tensors = std::vector<Tensor>;

}  // namespace

TEST_CASE("rms_norm and its backward follow the formula, for all dtypes, widths and layouts") {
  const at::ScalarType x_dtype = any_dtype(), weight_dtype = any_dtype();
  if ((x_dtype == at::kDouble) != (weight_dtype == at::kDouble)) return;
  const auto [count, width] =
      GENERATE(std::pair(1, 1), std::pair(1, 64), std::pair(150, 37), std::pair(3, 2051));
  const char* const layout = GENERATE("contiguous", "apart", "transposed", "deep");
  INFO(x_dtype << " " << weight_dtype << " " << count << " x " << width << " " << layout);
  at::manual_seed(3);
  const Tensor x = rows(layout, count, width, x_dtype);
  const Tensor weight = (at::randn({width}) + 1).to(weight_dtype);
  const Tensors made = checked_call("rms_norm", {x, weight, 1e-5});
  const Tensor x64 = wide(x), weight64 = wide(weight);
  const Tensor inverse = at::rsqrt(at::mean(x64 * x64, at::IntArrayRef{-1}, true) + 1e-5);
  const Tensor y = x64 * inverse * weight64;
  check_close(made[0], y);
  check_close(made[1], inverse);

  const Tensor grad = rows(layout, count, width, made[0].scalar_type());
  y.backward(grad.to(at::kDouble));
  const Tensors gradients = checked_call("rms_norm_backward", {grad, x, weight, made[1]});
  CHECK(gradients[0].scalar_type() == x_dtype);
  CHECK(gradients[1].scalar_type() == made[1].scalar_type());
  check_close(gradients[0], x64.grad());
  check_close(gradients[1], weight64.grad());
}

TEST_CASE("add_rms_norm and its backward have the bits of separate norms and sums") {
  const at::ScalarType x_dtype = any_dtype(), weight_dtype = any_dtype();
  if ((x_dtype == at::kDouble) != (weight_dtype == at::kDouble)) return;
  const char* const layout = GENERATE("contiguous", "apart", "transposed", "deep");
  INFO(x_dtype << " " << weight_dtype << " " << layout);
  const Tensor x = rows(layout, 37, 131, x_dtype), residual = rows(layout, 37, 131, x_dtype);
  const Tensor weight = (at::randn({131}) + 1).to(weight_dtype), sum = x + residual;
  const Tensors made = checked_call("add_rms_norm", {x, residual, weight, 1e-5}),
                expected = call("rms_norm", sum, weight, 1e-5);
  CHECK(at::equal(made[0], sum));
  CHECK(at::equal(made[1], expected[0]));
  CHECK(at::equal(made[2], expected[1]));

  const Tensor grad = rows(layout, 37, 131, made[1].scalar_type()), grad_sum = rows(layout, 37, 131, x_dtype);
  const Tensors gradients = checked_call("add_rms_norm_backward", {grad, sum, weight, made[2], grad_sum}),
                apart = call("rms_norm_backward", grad, sum, weight, made[2]);
  CHECK(at::equal(gradients[0], apart[0] + grad_sum));
  CHECK(at::equal(gradients[1], apart[1]));
}

TEST_CASE("autograd of rms_norm calls its backward, and gives weights gradients of their dtype") {
  const Tensor x = rows("apart", 37, 131, at::kBFloat16).requires_grad_();
  const Tensor weight = rows("contiguous", 1, 131, at::kBFloat16)[0].detach().requires_grad_();
  const Tensor y = rms_norm_of(x, weight, 1e-5), grad = rows("contiguous", 37, 131, at::kBFloat16);
  y.backward(grad);
  const Tensor inverse = call("rms_norm", x.detach(), weight.detach(), 1e-5)[1];
  const Tensors expected = call("rms_norm_backward", grad, x.detach(), weight.detach(), inverse);
  CHECK(at::equal(x.grad(), expected[0]));
  CHECK(at::equal(weight.grad(), expected[1].to(at::kBFloat16)));
}

TEST_CASE("rms_norm of no rows gives no rows, and a zero gradient of the weight") {
  const Tensor x = at::randn({0, 8}), weight = at::randn({8});
  const Tensors made = checked_call("rms_norm", {x, weight, 1e-5});
  CHECK(made[0].sizes() == x.sizes());
  const Tensors gradients = checked_call("rms_norm_backward", {x, x, weight, made[1]});
  CHECK(at::equal(gradients[1], weight * 0));
  CHECK(checked_call("add_rms_norm", {x, x, weight, 1e-5})[0].sizes() == x.sizes());
  CHECK(at::equal(checked_call("add_rms_norm_backward", {x, x, weight, made[1], x})[1], weight * 0));
}

TEST_CASE("rms_norm gives the same bits for any number of threads") {
  const Tensor x = at::randn({301, 96}).to(at::kBFloat16), grad = at::randn({301, 96}).to(at::kBFloat16);
  const Tensor weight = at::randn({96}).to(at::kBFloat16);
  check_same_with_threads([&] {
    Tensors results = call("rms_norm", x, weight, 1e-5);
    for (const Tensor& gradient : call("rms_norm_backward", grad, x, weight, results[1]))
      results.push_back(gradient);
    return results;
  });
}

TEST_CASE("rms_norm refuses unsupported operands") {
  const Tensor x = at::randn({2, 4}).to(at::kHalf), weight = at::randn({4}), wide = weight.to(at::kDouble);
  check_refused("rms_norm supports float32, bfloat16 and, on the CPU, float64, but x is Half", "rms_norm",
                {x, weight, 1e-5});
  check_refused("but weight is Half", "rms_norm", {weight, x[0], 1e-5});
  check_refused("x and weight must both be float64, or neither", "rms_norm", {weight, wide, 1e-5});
}

TEST_CASE("rms_norm refuses mismatched operands and names them") {
  const Tensor x = at::randn({3, 4}), weight = at::randn({4}), inverse = at::randn({3, 1});
  const Tensor narrow = x.to(at::kBFloat16), one = at::randn({}), flat = at::randn({12});
  check_refused("weight is Float [3], but must be Float [4]", "rms_norm", {x, inverse.view(3), 1e-5});
  check_refused("x must have at least one column", "rms_norm", {one, weight, 1e-5});
  const char* const norm = "rms_norm_backward";
  check_refused("grad is BFloat16 [3, 4], but must be Float [3, 4]", norm, {narrow, x, weight, inverse});
  check_refused("grad is Float [12]", norm, {flat, x, weight, inverse});
  check_refused("weight is Float [3, 4]", norm, {x, x, x, inverse});
  check_refused("inverse_rms is Float [4]", norm, {x, x, weight, weight});
  check_refused("residual is BFloat16 [3, 4], but must be Float [3, 4]", "add_rms_norm",
                {x, narrow, weight, 1e-5});
  check_refused("grad_sum is Float [12]", "add_rms_norm_backward", {x, x, weight, inverse, flat});
  check_refused("inverse_rms is BFloat16 [3, 1]", norm, {x, x, weight, inverse.to(at::kBFloat16)});
}

}  // namespace rondo
