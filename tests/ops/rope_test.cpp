// rope on the CPU against its formula in f64, and its inverse as its backward.
#include "ops/rope/rope.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "tests/ops/op_case.h"

namespace rondo {
namespace {

using at::Tensor;
using Tensors = std::vector<Tensor>;

}  // namespace

TEST_CASE("rope rotates halves and neighbors of strided heads, and its inverse is its backward") {
  const at::ScalarType dtype = any_dtype();
  const bool interleaved = GENERATE(false, true), one_table = GENERATE(false, true);
  const std::int64_t batch = 3, time = 7, heads = 2, width = GENERATE(2, 10, 64);
  at::manual_seed(5);
  const at::ScalarType of_tables = dtype == at::kDouble ? at::kDouble : at::kFloat;
  const Tensor angle = at::randn({one_table ? 1 : batch, time, 1, width / 2}, of_tables) * 3;
  const Tensor cos = angle.cos(), sin = angle.sin();
  const Tensor x = GENERATE(false, true)
                       ? at::randn({batch, time, heads, width + 3}).to(dtype).narrow(3, 1, width)
                       : at::randn({batch, heads, width, time}).to(dtype).permute({0, 3, 1, 2});
  const Tensor x64 = wide(x), cos64 = cos.to(at::kDouble), sin64 = sin.to(at::kDouble);
  const Tensors pairs = interleaved ? x64.unflatten(-1, {width / 2, 2}).unbind(-1)
                                    : x64.unflatten(-1, {2, width / 2}).unbind(-2);
  const Tensor y = at::cat({pairs[0] * cos64 - pairs[1] * sin64, pairs[1] * cos64 + pairs[0] * sin64}, -1);
  const Tensor made = checked_call("rope", {x, cos, sin, interleaved, false})[0];
  check_close(made, y);

  const Tensor grad = at::randn(x.sizes()).to(dtype);
  y.backward(grad.to(at::kDouble));
  check_close(checked_call("rope", {grad, cos, sin, interleaved, true})[0], x64.grad());
}

TEST_CASE("rope and its gradient have the bits of ATen's products and sums, one by one") {
  const at::ScalarType dtype = any_dtype();
  const bool interleaved = GENERATE(false, true);
  const std::int64_t width = GENERATE(10, 32);
  const at::ScalarType of_tables = dtype == at::kDouble ? at::kDouble : at::kFloat;
  const Tensor x = at::randn({2, 7, 3, width}).to(dtype).requires_grad_(true);
  const Tensor angle = at::randn({1, 7, 1, width / 2}, of_tables);
  const Tensor cos = angle.cos(), sin = angle.sin(), wide = x.to(of_tables);
  const Tensors pairs = interleaved ? wide.unflatten(-1, {width / 2, 2}).unbind(-1)
                                    : wide.unflatten(-1, {2, width / 2}).unbind(-2);
  const Tensor first = pairs[0] * cos - pairs[1] * sin, second = pairs[1] * cos + pairs[0] * sin;
  const Tensor expected = at::cat({first, second}, -1).to(dtype);
  const Tensor grad = at::randn(x.sizes()).to(dtype);
  expected.backward(grad);

  const Tensor leaf = x.detach().clone().requires_grad_(true);
  const Tensor y = rope_of(leaf, cos, sin, interleaved);
  y.backward(grad);
  CHECK(at::equal(y, expected));
  CHECK(at::equal(leaf.grad(), x.grad()));
}

TEST_CASE("rope with narrower tables rotates the end of each head and copies the rest") {
  const at::ScalarType dtype = any_dtype();
  const bool interleaved = GENERATE(false, true), inverse = GENERATE(false, true);
  const std::int64_t width = 36, rotated = GENERATE(0, 10, 32);
  const Tensor x = at::randn({2, 7, 3, width + 4}).to(dtype).narrow(3, 0, width);
  const Tensor angle = at::randn({1, 7, 1, rotated / 2}, dtype == at::kDouble ? at::kDouble : at::kFloat);
  const Tensor cos = angle.cos(), sin = angle.sin();
  const Tensor end = call("rope", x.narrow(3, width - rotated, rotated), cos, sin, interleaved, inverse)[0];
  const Tensor expected = at::cat({x.narrow(3, 0, width - rotated), end}, -1);
  CHECK(at::equal(checked_call("rope", {x, cos, sin, interleaved, inverse})[0], expected));
}

TEST_CASE("rope of no tokens gives no tokens") {
  const Tensor heads = at::randn({2, 0, 3, 8}), table = at::randn({1, 0, 1, 4});
  CHECK(checked_call("rope", {heads, table, table, true, false})[0].sizes() == heads.sizes());
}

TEST_CASE("rope refuses unsupported operands") {
  const Tensor heads = at::randn({1, 2, 1, 4}).to(at::kHalf), table = at::randn({1, 2, 1, 2});
  check_refused("but x is Half", "rope", {heads, table, table, false, false});
}

TEST_CASE("rope refuses mismatched operands and names them") {
  const Tensor heads = at::randn({3, 2, 1, 4}), table = at::randn({1, 2, 1, 2});
  const Tensor two = at::randn({2, 2, 1, 2}), x = at::randn({3, 4});
  check_refused("cos is Float [2, 2, 1, 2], but must be Float [3, 2, 1, 2]", "rope",
                {heads, two, two, false, false});
  check_refused("cos is Float [3, 4]", "rope", {heads, x, x, false, false});
  check_refused("cos is Float [1, 2, 1, 2], but must be Double", "rope",
                {heads.to(at::kDouble), table, table, false, false});
  check_refused("cos is BFloat16", "rope", {heads, table.to(at::kBFloat16), table, false, false});
  check_refused("sin is Float [2, 2, 1, 2]", "rope", {heads, table, two, false, false});
  check_refused("cos is Float [1, 2, 1, 2], but must be Float [1, 2, 1, 1]", "rope",
                {at::randn({3, 2, 1, 3}), table, table, true, false});
  check_refused("x must be [B, T, H, D]", "rope", {x, table, table, true, false});
}

}  // namespace rondo
