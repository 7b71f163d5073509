// The fused ops on the CPU against their formulas in f64, forward and backward.
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/stack.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <tuple>

#include "support/error.h"

namespace rondo {
namespace {

using at::Tensor;
using Tensors = std::vector<Tensor>;

template <class... Args>
Tensors call(const char* name, const Args&... args) {
  torch::jit::Stack stack{args...};
  c10::Dispatcher::singleton().findSchemaOrThrow(name, "").callBoxed(stack);
  Tensors results;
  for (const c10::IValue& value : stack) results.push_back(value.toTensor());
  return results;
}
template <class Argument>
auto on_meta(const Argument& argument) {
  if constexpr (std::is_same_v<Argument, Tensor>)
    return argument.to(at::kMeta);
  else
    return argument;
}
// The shape rule must foretell what the kernel gives.
template <class... Args>
Tensors checked_call(const char* name, const Args&... args) {
  const Tensors results = call(name, args...), foretold = call(name, on_meta(args)...);
  REQUIRE(results.size() == foretold.size());
  for (std::size_t i = 0; i < results.size(); ++i) {
    CHECK(results[i].sizes() == foretold[i].sizes());
    CHECK(results[i].strides() == foretold[i].strides());
    CHECK(results[i].scalar_type() == foretold[i].scalar_type());
  }
  return results;
}

// By the kernel and by the shape rule alike.
template <class... Args>
void check_refused(const char* words, const char* name, const Args&... args) {
  const auto matcher = Catch::Matchers::MessageMatches(Catch::Matchers::ContainsSubstring(words));
  CHECK_THROWS_MATCHES(call(name, args...), Error, matcher);
  CHECK_THROWS_MATCHES(call(name, on_meta(args)...), Error, matcher);
}

Tensor wide(const Tensor& tensor) { return tensor.detach().to(at::kDouble).set_requires_grad(true); }

// Rounded once at the end, and sums of f32.
void check_close(const Tensor& made, const Tensor& expected) {
  const double tolerance = made.scalar_type() == at::kBFloat16 ? 4e-3 : 2e-5;
  CHECK(made.sizes() == expected.sizes());
  CHECK(at::allclose(made.to(at::kDouble), expected, tolerance, tolerance));
}

at::ScalarType any_dtype() { return GENERATE(at::kFloat, at::kBFloat16); }

// Contiguous, rows apart and at odd addresses, transposed, of three dimensions.
Tensor rows(const char* layout, std::int64_t count, std::int64_t width, at::ScalarType dtype) {
  const std::string_view name = layout;
  if (name == "apart") return at::randn({count, width + 5}).to(dtype).narrow(1, 3, width);
  if (name == "transposed") return at::randn({width, count}).to(dtype).t();
  if (name == "deep") return at::randn({2, count, width}).to(dtype);
  return at::randn({count, width}).to(dtype);
}

}  // namespace

TEST_CASE("rms_norm and its backward are the formula's, for every dtype, width and layout") {
  const at::ScalarType x_dtype = any_dtype(), weight_dtype = any_dtype();
  const auto [count, width] =
      GENERATE(std::pair(1, 1), std::pair(1, 64), std::pair(150, 37), std::pair(3, 2051));
  const char* const layout = GENERATE("contiguous", "apart", "transposed", "deep");
  INFO(x_dtype << " " << weight_dtype << " " << count << " x " << width << " " << layout);
  at::manual_seed(3);
  const Tensor x = rows(layout, count, width, x_dtype);
  const Tensor weight = (at::randn({width}) + 1).to(weight_dtype);
  const Tensors made = checked_call("rondo::rms_norm", x, weight, 1e-5);
  const Tensor x64 = wide(x), weight64 = wide(weight);
  const Tensor inverse = at::rsqrt(at::mean(x64 * x64, at::IntArrayRef{-1}, true) + 1e-5);
  const Tensor y = x64 * inverse * weight64;
  check_close(made[0], y);
  check_close(made[1], inverse);

  const Tensor grad = rows(layout, count, width, made[0].scalar_type());
  y.backward(grad.to(at::kDouble));
  const Tensors gradients = checked_call("rondo::rms_norm_backward", grad, x, weight, made[1]);
  CHECK(gradients[0].scalar_type() == x_dtype);
  CHECK(gradients[1].scalar_type() == at::kFloat);
  check_close(gradients[0], x64.grad());
  check_close(gradients[1], weight64.grad());
}

TEST_CASE("swiglu and its backward are the formula's, and keep what is infinite or not a number") {
  const at::ScalarType dtype = any_dtype();
  const Tensor gate = rows(GENERATE("contiguous", "transposed"), 37, 131, dtype) * 4;
  const Tensor up = rows("apart", 37, 131, dtype), grad = rows("contiguous", 37, 131, dtype);
  const Tensor gate64 = wide(gate), up64 = wide(up);
  const Tensor y = at::silu(gate64) * up64;
  check_close(checked_call("rondo::swiglu", gate, up)[0], y);
  y.backward(grad.to(at::kDouble));
  const Tensors gradients = checked_call("rondo::swiglu_backward", grad, gate, up);
  check_close(gradients[0], gate64.grad());
  check_close(gradients[1], up64.grad());

  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  for (double special : {inf, -inf, nan, 1e30, -1e30, 0.0}) {
    INFO(special);
    const Tensor at_special = at::ones_like(gate) * special;
    CHECK(
        at::allclose(call("rondo::swiglu", at_special, up)[0], at::silu(at_special) * up, 1e-2, 1e-2, true));
  }
}

TEST_CASE("rope turns halves and neighbours, of heads that lie apart, and its inverse is its backward") {
  const at::ScalarType dtype = any_dtype();
  const bool interleaved = GENERATE(false, true), one_table = GENERATE(false, true);
  const std::int64_t batch = 3, time = 7, heads = 2, width = GENERATE(2, 10, 64);
  at::manual_seed(5);
  const Tensor angle = at::randn({one_table ? 1 : batch, time, 1, width / 2}) * 3;
  const Tensor cos = angle.cos(), sin = angle.sin();
  const Tensor x = GENERATE(false, true)
                       ? at::randn({batch, time, heads, width + 3}).to(dtype).narrow(3, 1, width)
                       : at::randn({batch, heads, width, time}).to(dtype).permute({0, 3, 1, 2});
  const Tensor x64 = wide(x), cos64 = cos.to(at::kDouble), sin64 = sin.to(at::kDouble);
  const Tensors pairs = interleaved ? x64.unflatten(-1, {width / 2, 2}).unbind(-1)
                                    : x64.unflatten(-1, {2, width / 2}).unbind(-2);
  const Tensor y = at::cat({pairs[0] * cos64 - pairs[1] * sin64, pairs[1] * cos64 + pairs[0] * sin64}, -1);
  const Tensor made = checked_call("rondo::rope", x, cos, sin, interleaved, false)[0];
  check_close(made, y);

  const Tensor grad = at::randn(x.sizes()).to(dtype);
  y.backward(grad.to(at::kDouble));
  check_close(checked_call("rondo::rope", grad, cos, sin, interleaved, true)[0], x64.grad());
}

TEST_CASE("fused ops of no rows give no rows, and a zero gradient of the weight") {
  const Tensor x = at::randn({0, 8}), weight = at::randn({8});
  const Tensors made = checked_call("rondo::rms_norm", x, weight, 1e-5);
  CHECK(made[0].sizes() == x.sizes());
  const Tensors gradients = checked_call("rondo::rms_norm_backward", x, x, weight, made[1]);
  CHECK(at::equal(gradients[1], weight * 0));
  CHECK(checked_call("rondo::swiglu", x, x)[0].numel() == 0);
  CHECK(checked_call("rondo::swiglu_backward", x, x, x)[0].numel() == 0);
  const Tensor heads = at::randn({2, 0, 3, 8}), table = at::randn({1, 0, 1, 4});
  CHECK(checked_call("rondo::rope", heads, table, table, true, false)[0].sizes() == heads.sizes());
}

TEST_CASE("fused ops give the same bits whatever the number of threads") {
  const int threads = at::get_num_threads();
  const Tensor x = at::randn({301, 96}).to(at::kBFloat16), grad = at::randn({301, 96}).to(at::kBFloat16);
  const Tensor weight = at::randn({96}).to(at::kBFloat16);
  Tensors results[2];
  for (const int count : {1, 2}) {
    at::set_num_threads(count);
    const Tensors made = call("rondo::rms_norm", x, weight, 1e-5);
    for (const Tensors& some : {made, call("rondo::rms_norm_backward", grad, x, weight, made[1]),
                                call("rondo::swiglu_backward", grad, x, grad)})
      results[count - 1].insert(results[count - 1].end(), some.begin(), some.end());
  }
  at::set_num_threads(threads);
  for (std::size_t i = 0; i < results[0].size(); ++i) CHECK(at::equal(results[0][i], results[1][i]));
}

TEST_CASE("fused ops refuse what they have no kernel for") {
  const Tensor x = at::randn({2, 4}).to(at::kDouble), weight = at::randn({4});
  check_refused("rms_norm is for float32 and bfloat16, and x is Double", "rondo::rms_norm", x, weight, 1e-5);
  check_refused("and weight is Double", "rondo::rms_norm", weight, x[0], 1e-5);
  check_refused("and gate is Double", "rondo::swiglu", x, x);
  check_refused("and gate is Double", "rondo::swiglu_backward", x, x, x);
  const Tensor heads = at::randn({1, 2, 1, 4}).to(at::kDouble), table = at::randn({1, 2, 1, 2});
  check_refused("and x is Double", "rondo::rope", heads, table, table, false, false);
}

TEST_CASE("fused ops refuse operands that do not fit each other, and say which one") {
  const Tensor x = at::randn({3, 4}), weight = at::randn({4}), inverse = at::randn({3, 1});
  const Tensor narrow = x.to(at::kBFloat16), one = at::randn({}), flat = at::randn({12});
  check_refused("weight is Float [3], and has to be Float [4]", "rondo::rms_norm", x, inverse.view(3), 1e-5);
  check_refused("x has rows of at least one column", "rondo::rms_norm", one, weight, 1e-5);
  const char* const norm = "rondo::rms_norm_backward";
  check_refused("grad is BFloat16 [3, 4], and has to be Float [3, 4]", norm, narrow, x, weight, inverse);
  check_refused("grad is Float [12]", norm, flat, x, weight, inverse);
  check_refused("weight is Float [3, 4]", norm, x, x, x, inverse);
  check_refused("inverse_rms is Float [4]", norm, x, x, weight, weight);
  check_refused("inverse_rms is BFloat16 [3, 1]", norm, x, x, weight, inverse.to(at::kBFloat16));

  check_refused("up is BFloat16 [3, 4], and has to be Float [3, 4]", "rondo::swiglu", x, narrow);
  check_refused("up is Float [12]", "rondo::swiglu", x, flat);
  check_refused("up is Float [12]", "rondo::swiglu_backward", x, x, flat);
  check_refused("grad is Float [12]", "rondo::swiglu_backward", flat, x, x);
  check_refused("grad is BFloat16 [3, 4]", "rondo::swiglu_backward", narrow, x, x);

  const Tensor heads = at::randn({3, 2, 1, 4}), table = at::randn({1, 2, 1, 2}),
               two = at::randn({2, 2, 1, 2});
  check_refused("cos is Float [2, 2, 1, 2], and has to be Float [3, 2, 1, 2]", "rondo::rope", heads, two, two,
                false, false);
  check_refused("cos is Float [3, 4]", "rondo::rope", heads, x, x, false, false);
  check_refused("cos is BFloat16", "rondo::rope", heads, table.to(at::kBFloat16), table, false, false);
  check_refused("sin is Float [2, 2, 1, 2]", "rondo::rope", heads, table, two, false, false);
  check_refused("x is [B, T, H, D], and D is even", "rondo::rope", at::randn({3, 2, 1, 5}), table, table,
                true, false);
  check_refused("x is [B, T, H, D], and D is even", "rondo::rope", x, table, table, true, false);
}

}  // namespace rondo
