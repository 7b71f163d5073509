// adamw on the CPU against LibTorch's kernel, bit for bit, and against the formula in f64.
#include "ops/adamw/adamw.h"

#include <ATen/TensorOperators.h>
#include <ATen/Version.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/sqrt.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cmath>
#include <limits>

#include "support/error.h"
#include "tests/ops/op_case.h"

namespace rondo {
namespace {

using at::Tensor;
using Tensors = std::vector<Tensor>;

struct Update {
  Tensors parameters, exp_avgs, exp_avg_sqs, gradients;
  Tensor step = at::full({}, 3.0f), learning_rate = at::full({}, 3e-3f), gradient_scale = at::full({}, 1.7f),
         found_inf = at::full({}, 0.0f);
  AdamWOptions options = {};

  void add(const std::vector<std::int64_t>& sizes, at::ScalarType type) {
    parameters.push_back(at::randn(sizes).to(type));
    exp_avgs.push_back((at::randn(sizes) * 0.1).to(type));
    exp_avg_sqs.push_back((at::rand(sizes) * 0.1).to(type));
    gradients.push_back(at::randn(sizes).to(type));
  }
  std::vector<Argument> arguments() const {
    return {parameters,
            exp_avgs,
            exp_avg_sqs,
            gradients,
            step,
            learning_rate,
            gradient_scale,
            found_inf,
            options.beta1,
            options.beta2,
            options.eps,
            options.weight_decay,
            options.decoupled_weight_decay};
  }
  // Returns the new parameters, exp_avgs, exp_avg_sqs.
  Tensors updated() const { return checked_call("adamw", arguments()); }
};

Update of(const std::vector<std::int64_t>& counts, at::ScalarType type) {
  Update update;
  for (const std::int64_t count : counts) update.add({count}, type);
  return update;
}

Tensors copies(const Tensors& tensors) {
  Tensors made;
  for (const Tensor& tensor : tensors) made.push_back(tensor.clone());
  return made;
}

Tensors updated_by_libtorch(const Update& u) {
  Tensors results = copies(u.parameters), exp_avgs = copies(u.exp_avgs), squares = copies(u.exp_avg_sqs);
  const Tensors gradients = copies(u.gradients), steps(results.size(), u.step);
  const auto call = [&](auto op) {
    op(results, gradients, exp_avgs, squares, at::TensorList{}, steps, u.learning_rate, u.options.beta1,
       u.options.beta2, u.options.weight_decay, u.options.eps, false, false, u.gradient_scale, u.found_inf);
  };
  u.options.decoupled_weight_decay ? call([](auto&&... a) { at::_fused_adamw_(a...); })
                                   : call([](auto&&... a) { at::_fused_adam_(a...); });
  results.insert(results.end(), exp_avgs.begin(), exp_avgs.end());
  results.insert(results.end(), squares.begin(), squares.end());
  return results;
}

}  // namespace

TEST_CASE("an update has the bits of LibTorch's vectorized kernel") {
  if (at::get_cpu_capability() == "DEFAULT") SKIP("its kernel has no fused multiply-add on this machine");
  // its f64 kernel rounds each product
  const at::ScalarType type = GENERATE(at::kFloat, at::kBFloat16);
  Update update = of({32, 4096, 100'000}, type);
  update.add({3, 5, 32}, type);
  update.options.decoupled_weight_decay = GENERATE(true, false);
  update.options.weight_decay = GENERATE(0.1, 0.0);
  const auto [beta1, beta2] = GENERATE(table<double, double>({{0.9, 0.95}, {0.8, 0.999}}));
  update.options.beta1 = beta1, update.options.beta2 = beta2;
  for (const float step : {1.0f, 2.0f, 77.0f, 1001.0f, 123'457.0f}) {
    update.step.fill_(step);
    const Tensors ours = update.updated(), expected = updated_by_libtorch(update);
    for (std::size_t i = 0; i < ours.size(); ++i) CHECK(at::equal(ours[i], expected[i]));
  }
}

TEST_CASE("an update follows the formula for all dtypes, sizes and kinds of weight decay") {
  const at::ScalarType type = any_dtype();
  Update update = of({1, 7, 16'383, 16'384 + 3}, type);
  AdamWOptions& o = update.options;
  o.decoupled_weight_decay = GENERATE(true, false);
  const Tensors made = update.updated();
  const double lr = update.learning_rate.item<double>(), step = update.step.item<double>();
  const std::size_t count = update.parameters.size();
  for (std::size_t k = 0; k < count; ++k) {
    const auto f64 = [&](const Tensors& list) { return list[k].to(at::kDouble); };
    Tensor p = f64(update.parameters), g = f64(update.gradients) / update.gradient_scale.item<double>();
    if (o.decoupled_weight_decay)
      p = p * (1 - lr * o.weight_decay);
    else
      g = g + o.weight_decay * p;
    const Tensor m = o.beta1 * f64(update.exp_avgs) + (1 - o.beta1) * g,
                 v = o.beta2 * f64(update.exp_avg_sqs) + (1 - o.beta2) * g * g;
    const Tensor denominator = at::sqrt(v / (1 - std::pow(o.beta2, step))) + o.eps;
    check_close(made[k], p - lr * (m / (1 - std::pow(o.beta1, step))) / denominator);
    check_close(made[count + k], m);
    check_close(made[2 * count + k], v);
  }
}

TEST_CASE("the in-place form gives the same bits, and no form writes gradients") {
  const Update update = of({1000, 40'001}, any_dtype());
  const Tensors expected = update.updated(), gradients = copies(update.gradients);
  call_op("adamw_", update.arguments());
  const std::size_t count = update.parameters.size();
  for (std::size_t k = 0; k < count; ++k) {
    CHECK(at::equal(update.parameters[k], expected[k]));
    CHECK(at::equal(update.exp_avgs[k], expected[count + k]));
    CHECK(at::equal(update.exp_avg_sqs[k], expected[2 * count + k]));
    CHECK(at::equal(update.gradients[k], gradients[k]));
  }
}

TEST_CASE("if a step is not finite, no bit changes") {
  Update update = of({100}, at::kFloat);
  update.gradients[0].fill_(std::numeric_limits<float>::quiet_NaN());
  update.gradient_scale.fill_(std::numeric_limits<float>::quiet_NaN());
  update.found_inf.fill_(1);
  const Tensors after = update.updated();
  CHECK(at::equal(after[0], update.parameters[0]));
  CHECK(at::equal(after[1], update.exp_avgs[0]));
  CHECK(at::equal(after[2], update.exp_avg_sqs[0]));
}

TEST_CASE(
    "an update has the same bits for any number of threads, with other tensors, and for a strided gradient") {
  Update all = of({100'003, 0, 17}, at::kFloat);
  all.add({40, 30}, at::kBFloat16);
  check_same_with_threads([&] { return all.updated(); });
  Update one = of({}, at::kFloat);
  one.parameters = {all.parameters[3]}, one.exp_avgs = {all.exp_avgs[3]};
  one.exp_avg_sqs = {all.exp_avg_sqs[3]}, one.gradients = {all.gradients[3].t().contiguous().t()};
  CHECK(at::equal(one.updated()[0], all.updated()[3]));
}

TEST_CASE("with f32 parameters, a bf16 gradient gives the bits of that gradient in f32") {
  Update narrow = of({5, 40'001}, at::kFloat);
  for (Tensor& gradient : narrow.gradients) gradient = gradient.to(at::kBFloat16);
  Update wide = narrow;
  for (Tensor& gradient : wide.gradients) gradient = gradient.to(at::kFloat);
  const Tensors made = narrow.updated(), expected = wide.updated();
  for (std::size_t i = 0; i < made.size(); ++i) CHECK(at::equal(made[i], expected[i]));
}

TEST_CASE(
    "bf16 moments of f32 parameters are the f32 moments rounded, and the parameter uses them unrounded") {
  Update narrow = of({5, 40'001}, at::kFloat);
  if (GENERATE(false, true))
    for (Tensor& gradient : narrow.gradients) gradient = gradient.to(at::kBFloat16);
  Update wide = narrow;
  const std::size_t count = narrow.parameters.size();
  for (std::size_t k = 0; k < count; ++k) {
    narrow.exp_avgs[k] = narrow.exp_avgs[k].to(at::kBFloat16);
    narrow.exp_avg_sqs[k] = narrow.exp_avg_sqs[k].to(at::kBFloat16);
    wide.exp_avgs[k] = narrow.exp_avgs[k].to(at::kFloat);
    wide.exp_avg_sqs[k] = narrow.exp_avg_sqs[k].to(at::kFloat);
  }
  const Tensors made = narrow.updated(), expected = wide.updated();
  for (std::size_t i = 0; i < made.size(); ++i) {
    CHECK(made[i].scalar_type() == (i < count ? at::kFloat : at::kBFloat16));
    CHECK(at::equal(made[i], expected[i].to(made[i].scalar_type())));
  }
}

TEST_CASE("adamw refuses unsupported operands") {
  const auto check_update = [](const std::string& words, const auto& change) {
    Update update = of({8}, at::kFloat);
    change(update);
    check_refused(words, "adamw", update.arguments());
    check_refused(words, "adamw_", update.arguments());
  };
  check_update("a parameter is Half", [](Update& u) { u.parameters[0] = u.parameters[0].to(at::kHalf); });
  check_update("a gradient is Double [8]",
               [](Update& u) { u.gradients[0] = u.gradients[0].to(at::kDouble); });
  check_update("an exp_avg_sq is BFloat16 [8]",
               [](Update& u) { u.exp_avg_sqs[0] = u.exp_avg_sqs[0].to(at::kBFloat16); });
  check_update("the lists differ in length", [](Update& u) { u.exp_avgs.clear(); });
  check_update("step is Float [1]", [](Update& u) { u.step = u.step.view({1}); });
  Update apart = of({8}, at::kFloat);
  apart.exp_avgs[0] = at::randn({16}).slice(0, 0, 16, 2);
  CHECK_THROWS_AS(call_op("adamw_", apart.arguments()), Error);
}

}  // namespace rondo
