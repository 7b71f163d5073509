// Tests the biases that balance the load of experts.
#include "trainer/step/functions/load_balance.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <catch2/catch_test_macros.hpp>

namespace rondo {
namespace {

using at::Tensor;

Tensor row(std::vector<float> values) { return at::tensor(values); }
Tensor flag(float value) { return at::full({}, value, at::kFloat); }

TEST_CASE(
    "experts above the mean load lose the coefficient, those below gain it, and the changes add up to zero") {
  const std::vector<Tensor> biases = {row({0, 0, 0, 0}), row({1, 2, 3, 4})};
  const Tensor tokens = row({7, 1, 4, 4, 1, 1, 1, 13}).view({2, 4});
  const Balanced balanced = balance_load(biases, {0, 1}, tokens, 0.5, flag(0));
  CHECK(at::equal(balanced.expert_biases[0], row({-0.5f, 0.5f, 0, 0})));
  CHECK(at::equal(balanced.expert_biases[1], row({1.25f, 2.25f, 3.25f, 3.25f})));  // 3 * 0.5 - 0.5 = 4 * 0.25
  CHECK(balanced.load_imbalance.item<float>() == 13.0f / 4.0f);
}

TEST_CASE("a step that is not finite changes no bit of a bias") {
  const std::vector<Tensor> biases = {at::randn({6})};
  const Tensor tokens = row({5, 0, 1, 9, 2, 2}).view({1, 6});
  CHECK(at::equal(balance_load(biases, {0}, tokens, 1e-3, flag(1)).expert_biases[0], biases[0]));
  CHECK_FALSE(at::equal(balance_load(biases, {0}, tokens, 1e-3, flag(0)).expert_biases[0], biases[0]));
}

TEST_CASE("biases that start at zero add up to about zero after many steps") {
  std::vector<Tensor> biases = {at::zeros({8})};
  for (int step = 0; step < 200; ++step) {
    const Tensor tokens = at::randn({1, 8}).abs().mul(100).floor();
    biases = balance_load(biases, {0}, tokens, 1e-3, flag(0)).expert_biases;
  }
  CHECK(std::abs(biases[0].sum().item<float>()) < 1e-5f);
  CHECK(biases[0].abs().max().item<float>() > 1e-3f);
}

}  // namespace
}  // namespace rondo
