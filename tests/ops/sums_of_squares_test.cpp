// sums_of_squares on the CPU against sums in f64.
#include "ops/sums_of_squares/sums_of_squares.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/sum.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cmath>
#include <limits>

#include "tests/ops/op_case.h"

namespace rondo {
namespace {

using at::Tensor;

Tensor sums_of(const std::vector<Tensor>& tensors) { return checked_call("sums_of_squares", {tensors})[0]; }
double sum_of(const Tensor& x) { return sums_of({x})[0].item<double>(); }

}  // namespace

TEST_CASE("sums_of_squares is the sum in f64 for all sizes and strides") {
  const at::ScalarType dtype = any_dtype();
  const std::int64_t width = GENERATE(1, 255, 257, 16384, 16385, 50001);
  const Tensor x = rows(GENERATE("contiguous", "apart", "transposed"), 3, width, dtype);
  const double expected = at::sum(x.to(at::kDouble) * x.to(at::kDouble)).item<double>();
  CHECK(std::abs(sum_of(x) - expected) < 1e-13 * expected);
}

TEST_CASE("the norm of a gradient of 100 million elements has a relative error below a millionth") {
  const std::int64_t count = 100'000'000, period = 1009;
  const Tensor x = at::empty({count}, at::kFloat);
  double expected = 0;
  float* const elements = x.mutable_data_ptr<float>();
  for (std::int64_t i = 0; i < count; ++i) {
    elements[i] = 1e-3f * static_cast<float>(1 + i % period);
    expected += static_cast<double>(elements[i]) * static_cast<double>(elements[i]);
  }
  CHECK(std::abs(std::sqrt(sum_of(x) / expected) - 1) < 1e-6);
}

TEST_CASE("sums_of_squares gives the same bits for any number of threads") {
  const Tensor x = at::randn({1'000'003});
  check_same_with_threads([&] { return call("sums_of_squares", std::vector<Tensor>{x}); });
}

TEST_CASE("sums of squares have the same bits with other tensors as alone") {
  const std::vector<Tensor> tensors = {at::randn({70'001}), at::randn({3, 5}).to(at::kBFloat16),
                                       at::randn({0}), at::randn({16384})};
  const Tensor sums = sums_of(tensors);
  for (std::size_t i = 0; i < tensors.size(); ++i)
    CHECK(sums[static_cast<std::int64_t>(i)].item<double>() == sum_of(tensors[i]));
}

TEST_CASE("sums_of_squares keeps infinities and nans, and squares numbers whose square f32 cannot hold") {
  const Tensor x = at::full({20000}, 1e30f);
  CHECK(std::abs(sum_of(x) / 2e64 - 1) < 1e-6);
  for (const float special : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
    x[17777] = special;
    CHECK_FALSE(std::isfinite(sum_of(x)));
  }
}

TEST_CASE("the sum of squares of an empty tensor is zero") { CHECK(sum_of(at::randn({0, 8})) == 0); }

TEST_CASE("sums_of_squares refuses unsupported operands") {
  check_refused("but x is Half", "sums_of_squares", {std::vector<Tensor>{at::randn({4}).to(at::kHalf)}});
}

}  // namespace rondo
