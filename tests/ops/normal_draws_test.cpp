// Initial weights on the CPU (ops/normal_draws/normal_draws.h): vector loops against the scalar
// contract.
#include "ops/normal_draws/normal_draws.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

namespace rondo {
namespace {

constexpr std::int64_t kFirst = (std::int64_t{1} << 33) + 5;

// The draws of at(), one by one.
at::Tensor scalar_draws(const NormalDraws& draws, std::int64_t count) {
  at::Tensor expected = at::empty({count}, at::kFloat);
  for (std::int64_t i = 0; i < count; ++i)
    expected.data_ptr<float>()[i] = static_cast<float>(draws.at(kFirst + i));
  return expected;
}

TEST_CASE("vector loops draw the bits of the scalar formulas, in the centre and in both tails") {
  const double low = GENERATE(0.0, 1e-13, 1.0 - 1e-12);  // all formulas, lower and upper far tail
  const double width = low == 0.0 ? 1.0 : 9e-13;
  const NormalDraws draws{0.02, low, width, 42, 7};
  for (const std::int64_t count : {0, 1, 255, 256, 257, 20'000}) {
    const at::Tensor expected = scalar_draws(draws, count);
    for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16}) {
      const at::Tensor drawn = at::empty({count}, dtype);
      draw_normal(drawn, draws, kFirst);
      CHECK(drawn.equal(expected.to(dtype)));
    }
  }
}

TEST_CASE("an integer below 2^52 is converted exactly") {
  constexpr std::uint64_t kLargest = (std::uint64_t{1} << 52) - 1;
  for (const std::uint64_t integer :
       {std::uint64_t{0}, std::uint64_t{1}, kLargest / 3, kLargest - 1, kLargest})
    CHECK(as_double(integer) == static_cast<double>(integer));
}

TEST_CASE("far tails follow the quantiles of the normal distribution") {
  // statistics.NormalDist().inv_cdf of Python
  CHECK(std::abs(normal_quantile(1e-12) - -7.034483825301132) < 1e-12);
  CHECK(std::abs(normal_quantile(1e-300) - -37.0470962993612) < 1e-11);
  CHECK(std::abs(normal_quantile(0.001) - -3.090232306167813) < 1e-14);
  CHECK(std::abs(normal_quantile(0.75) - 0.6744897501960817) < 1e-15);
}

}  // namespace
}  // namespace rondo
