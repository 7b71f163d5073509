// add_widened on the CPU against ATen's cast and sum, bit for bit.
#include "ops/add_widened/add_widened.h"

#include <ATen/ops/add.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "tests/ops/op_case.h"

namespace rondo {

using at::Tensor;

TEST_CASE("add_widened has the bits of a cast and a sum, in place and in a copy") {
  const at::ScalarType dtype = any_dtype();
  const bool narrow = GENERATE(false, true);
  const std::int64_t count = GENERATE(0, 1, 37, 10'003);
  const Tensor sum = at::randn({count}).to(dtype), before = sum.clone(),
               x = at::randn({2 * count}).to(narrow ? at::kBFloat16 : dtype).slice(0, 0, {}, 2);
  const Tensor expected = at::add(sum, x.to(dtype));
  CHECK(at::equal(checked_call("add_widened", {sum, x})[0], expected));
  CHECK(at::equal(sum, before));
  CHECK(call("add_widened_", sum, x)[0].const_data_ptr() == sum.const_data_ptr());
  CHECK(at::equal(sum, expected));
}

TEST_CASE("add_widened has the same bits with any number of threads") {
  const Tensor sum = at::randn({1 << 20}), x = at::randn({1 << 20}).to(at::kBFloat16);
  check_same_with_threads([&] { return call("add_widened", sum, x); });
}

TEST_CASE("add_widened refuses mismatched operands and names them") {
  const Tensor sum = at::randn({4, 2}), x = at::randn({4});
  check_refused("x is Float [4], but must be Float [4, 2]", "add_widened", {sum, x});
  check_refused("x is Double [4, 2], but must be Float [4, 2]", "add_widened", {sum, sum.to(at::kDouble)});
  check_refused("but sum is Half", "add_widened", {sum.to(at::kHalf), sum});
  check_refused("the sum must be contiguous", "add_widened_", {sum.t(), sum.t()});
}

}  // namespace rondo
