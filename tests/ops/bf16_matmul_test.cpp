// Products of bf16 as a processor without AVX-512 computes them, against products of f64. ctest
// sets ATEN_CPU_CAPABILITY=avx2 for this file.
#include "ops/matmul/bf16_matmul.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <limits>

#include "ops/grouped_mm/grouped_linear.h"
#include "tests/ops/op_case.h"

namespace rondo {
namespace {

using at::Tensor;

struct Shape {
  std::int64_t M, N, K;
};
// Zero-sized, odd, of several tiles, of several blocks of K.
constexpr std::array<Shape, 10> kShapes = {{{1, 1, 1},
                                            {3, 5, 7},
                                            {0, 5, 7},
                                            {3, 0, 7},
                                            {3, 5, 0},
                                            {1, 300, 200},
                                            {65, 33, 129},
                                            {257, 300, 100},
                                            {64, 256, 256},
                                            {30, 40, 2049}}};
constexpr std::array kLayouts = {"rows", "columns", "rows apart", "columns apart", "no dense dimension"};

// A matrix, or with a batch in front one of them.
Tensor drawn(const std::string& layout, std::int64_t rows, std::int64_t columns, std::int64_t batch = 0) {
  const auto draw = [&](std::int64_t a, std::int64_t b) {
    return (batch > 0 ? at::randn({batch, a, b}) : at::randn({a, b})).to(at::kBFloat16);
  };
  if (layout == "columns") return draw(columns, rows).transpose(-1, -2);
  if (layout == "rows apart") return draw(rows, columns + 5).narrow(-1, 3, columns);
  if (layout == "columns apart") return draw(columns, rows + 5).narrow(-1, 3, rows).transpose(-1, -2);
  if (layout == "no dense dimension")
    return draw(2 * rows, 2 * columns).slice(-1, 0, {}, 2).slice(-2, 0, {}, 2);
  return draw(rows, columns);
}

Tensor in_f64(const Tensor& x) { return x.to(at::kDouble); }

// Half a unit in the last place of bf16, and the error of a sum of K products in f32.
void check_rounded_once(const Tensor& result, const Tensor& exact, const Tensor& magnitude, std::int64_t K) {
  REQUIRE(result.scalar_type() == at::kBFloat16);
  REQUIRE(result.sizes() == exact.sizes());
  const Tensor bound =
      exact.abs() * std::ldexp(1, -8) + magnitude * (static_cast<double>(K + 2) * std::ldexp(1, -23));
  CHECK(((in_f64(result) - exact).abs() <= bound).all().item<bool>());
}
void check_product(const Tensor& result, const Tensor& a, const Tensor& b) {
  const Tensor wide_a = in_f64(a), wide_b = in_f64(b);
  check_rounded_once(result, wide_a.matmul(wide_b), wide_a.abs().matmul(wide_b.abs()), a.size(-1));
}
void check_sum(const Tensor& result, const Tensor& c, const Tensor& a, const Tensor& b, double beta,
               double alpha) {
  const Tensor wide_a = in_f64(a), wide_b = in_f64(b), wide_c = in_f64(c) * beta;
  check_rounded_once(result, wide_c + wide_a.matmul(wide_b) * alpha,
                     wide_c.abs() + wide_a.abs().matmul(wide_b.abs()) * std::abs(alpha), a.size(-1));
}

// Calls f and returns the number of products that were widened.
template <class F>
std::int64_t widened(const F& f) {
  const std::int64_t before = widened_products();
  f();
  return widened_products() - before;
}

#define SKIP_WITH_AVX512() \
  if (!widens_bf16_products()) SKIP("set ATEN_CPU_CAPABILITY=avx2 on this processor")

}  // namespace

TEST_CASE("a product of bf16 matrices is rounded once, for all sizes and layouts") {
  SKIP_WITH_AVX512();
  for (const auto [M, N, K] : kShapes)
    for (const char* const layout_a : kLayouts)
      for (const char* const layout_b : kLayouts) {
        INFO(M << " x " << K << ", " << layout_a << "; " << K << " x " << N << ", " << layout_b);
        const Tensor a = drawn(layout_a, M, K), b = drawn(layout_b, K, N);
        Tensor product;
        CHECK(widened([&] { product = at::mm(a, b); }) == 1);
        CHECK(product.is_contiguous());
        check_product(product, a, b);
      }
}

TEST_CASE("a product of bf16 matrices is written to results of any layout") {
  SKIP_WITH_AVX512();
  const Tensor a = drawn("rows", 70, 90), b = drawn("rows", 90, 50);
  for (const char* const layout : kLayouts) {
    INFO(layout);
    Tensor result = drawn(layout, 70, 50);
    at::mm_out(result, a, b);
    check_product(result, a, b);
  }
  Tensor resized = at::empty({0}, at::kBFloat16);
  at::mm_out(resized, a, b);
  check_product(resized, a, b);
}

TEST_CASE("a sum of bf16 and a product is rounded once") {
  SKIP_WITH_AVX512();
  for (const auto [M, N, K] : kShapes)
    for (const char* const layout : kLayouts)
      for (const auto& [beta, alpha] : {std::pair(1.0, 1.0), std::pair(0.5, -3.0)}) {
        INFO(M << " x " << K << " x " << N << ", " << layout << ", " << beta << ", " << alpha);
        const Tensor a = drawn(layout, M, K), b = drawn(layout, K, N);
        for (const Tensor& c : {drawn(layout, M, N), drawn("rows", 1, N), drawn("rows", M, 1),
                                drawn("rows", 1, N).squeeze(0), drawn("rows", 1, 1).squeeze()}) {
          Tensor sum;
          CHECK(widened([&] { sum = at::addmm(c, a, b, beta, alpha); }) == 1);
          check_sum(sum, c, a, b, beta, alpha);
          Tensor out = drawn("columns", M, N);
          at::addmm_out(out, c, a, b, beta, alpha);
          CHECK(out.equal(sum));
        }
        const Tensor c = drawn(layout, M, N);
        Tensor updated = c.clone();
        CHECK(widened([&] { updated.addmm_(a, b, beta, alpha); }) == 1);
        check_sum(updated, c, a, b, beta, alpha);
      }
}

TEST_CASE("a sum with a factor of zero is not read") {
  SKIP_WITH_AVX512();
  const Tensor nan = at::full({3, 5}, std::numeric_limits<double>::quiet_NaN(), at::kBFloat16);
  for (const std::int64_t K : {0, 7}) {
    const Tensor a = drawn("rows", 3, K), b = drawn("rows", K, 5);
    check_product(at::addmm(nan, a, b, 0), a, b);
  }
}

TEST_CASE("products of batches of bf16 are rounded once") {
  SKIP_WITH_AVX512();
  for (const auto [M, N, K] : kShapes)
    for (const char* const layout : kLayouts) {
      INFO(M << " x " << K << " x " << N << ", " << layout);
      const Tensor a = drawn(layout, M, K, 3), one = drawn(layout, K, N);
      for (const Tensor& b : {drawn(layout, K, N, 3), one.expand({3, K, N})}) {
        Tensor product;
        CHECK(widened([&] { product = at::bmm(a, b); }) == 1);
        check_product(product, a, b);
        const Tensor c = drawn(layout, M, N, 3);
        check_sum(at::baddbmm(c, a, b, 2, 0.5), c, a, b, 2, 0.5);
        Tensor updated = c.clone();
        updated.baddbmm_(a, b);
        check_sum(updated, c, a, b, 1, 1);
      }
    }
}

TEST_CASE("linear layers, their gradients and experts take these products") {
  SKIP_WITH_AVX512();
  const auto parameter = [](at::IntArrayRef sizes) {
    return at::randn(sizes).to(at::kBFloat16).requires_grad_(true);
  };
  const Tensor x = parameter({2, 6, 8}), weight = parameter({10, 8}), bias = parameter({10});
  Tensor y;
  CHECK(widened([&] { y = at::linear(x, weight, bias); }) == 1);
  CHECK(widened([&] { y.backward(at::ones_like(y)); }) == 2);
  check_product(x.grad().view({12, 8}), at::ones({12, 10}, at::kBFloat16), weight.detach());

  const Tensor rows = parameter({11, 8}), experts = parameter({3, 10, 8});
  const Tensor ends = at::tensor(std::vector<std::int32_t>{3, 3, 11}, at::kInt);
  CHECK(widened([&] { y = grouped_linear(rows, experts, ends); }) == 2);
  CHECK(widened([&] { y.backward(at::ones_like(y)); }) == 4);
}

TEST_CASE("bits of bf16 products do not depend on the number of threads") {
  SKIP_WITH_AVX512();
  for (const auto [M, N, K] : kShapes) {
    const Tensor a = drawn("rows", M, K), b = drawn("columns", K, N), c = drawn("rows", M, N);
    check_same_with_threads([&] { return std::vector{at::mm(a, b), at::addmm(c, a, b)}; });
  }
}

TEST_CASE("products of other dtypes are LibTorch's, and so are its refusals") {
  SKIP_WITH_AVX512();
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    const Tensor a = at::randn({9, 7}, dtype), b = at::randn({7, 5}, dtype), c = at::randn({5}, dtype);
    CHECK(widened([&] { at::mm(a, b), at::addmm(c, a, b), at::bmm(a.unsqueeze(0), b.unsqueeze(0)); }) == 0);
  }
  const Tensor a = drawn("rows", 3, 4), b = drawn("rows", 5, 6), right = drawn("rows", 4, 6);
  CHECK_THROWS_AS(at::mm(a, b), c10::Error);
  CHECK_THROWS_AS(at::mm(a, right.to(at::kFloat)), c10::Error);
  CHECK_THROWS_AS(at::addmm(drawn("rows", 2, 6), a, right), c10::Error);
  CHECK_THROWS_AS(at::bmm(a.expand({2, 3, 4}), right.expand({3, 4, 6})), c10::Error);
  Tensor wrong = at::empty({3, 6}, at::kFloat);
  CHECK_THROWS_AS(at::mm_out(wrong, a, right), c10::Error);
}

}  // namespace rondo
