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

#include <bit>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cmath>
#include <limits>

#include "support/error.h"
#include "tests/ops/append_draws.h"
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
  std::vector<std::int64_t> rounding = {};

  void round(const RoundingDraws& draws) { append_draws(rounding, draws); }
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
            options.decoupled_weight_decay,
            rounding};
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

namespace {

// An update of `count` neighbours in bf16, or with moments in bf16, rounded stochastically.
Update stochastic(std::int64_t count, at::ScalarType type, const RoundingDraws& draws) {
  Update update = of({count}, type);
  for (Tensors* const moments : {&update.exp_avgs, &update.exp_avg_sqs})
    (*moments)[0] = (*moments)[0].to(at::kBFloat16);
  update.options.beta2 = 0.999;
  update.round(draws);
  return update;
}
// Returns its results in f32.
Tensors unrounded(Update update) {
  update.rounding.clear();
  for (Tensors* const list : {&update.parameters, &update.exp_avgs, &update.exp_avg_sqs, &update.gradients})
    (*list)[0] = (*list)[0].to(at::kFloat);
  return update.updated();
}

}  // namespace

TEST_CASE("stochastic rounding is that of each element's f32 result, by the draw of its index") {
  const at::ScalarType type = GENERATE(at::kBFloat16, at::kFloat);
  const RoundingDraws draws =
      GENERATE(RoundingDraws{.stream = 1}, RoundingDraws{.stream = -5, .first = std::int64_t{1} << 40},
               RoundingDraws{.stream = 3, .first = 5, .begin = 3},
               RoundingDraws{.stream = 4, .first = 16, .row = 24, .pitch = 48, .begin = 8},
               RoundingDraws{.stream = 5, .first = 1, .row = 13, .pitch = 100, .begin = 7},
               RoundingDraws{.stream = 6, .first = 9, .row = 17'000, .pitch = 170'000, .begin = 100});
  const std::int64_t count = GENERATE(1, 9, 40'001);
  const Update update = stochastic(count, type, draws);
  const Tensors made = update.updated(), exact = unrounded(update);
  for (std::uint32_t kind = 0; kind < 3; ++kind) {
    if (made[kind].scalar_type() == at::kFloat) {
      CHECK(at::equal(made[kind], exact[kind]));
      continue;
    }
    std::int64_t different = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t j = draws.begin + i,
                         index = draws.first + j / draws.row * draws.pitch + j % draws.row;
      const PhiloxWords words = draws.words(index / 8, 3, kind);
      const std::uint32_t word = words.at[index % 8 / 2], draw = index % 2 == 0 ? word & 0xffff : word >> 16;
      different += made[kind].const_data_ptr<at::BFloat16>()[i].x !=
                   stochastic_bf16(exact[kind].const_data_ptr<float>()[i], draw);
    }
    CHECK(different == 0);
  }
}

TEST_CASE("the mean over many draws is the f32 result, and draws of an element are independent") {
  constexpr std::int64_t kCount = 200'000;
  Update update = stochastic(kCount, at::kBFloat16, {.stream = 11});
  update.gradients[0].fill_(0.01), update.parameters[0].fill_(0.5);
  update.exp_avgs[0].fill_(-0.007), update.exp_avg_sqs[0].fill_(2e-4);
  update.learning_rate.fill_(1e-5), update.gradient_scale.fill_(1);
  const Tensors made = update.updated(), exact = unrounded(update);
  Tensors ups;
  for (std::size_t kind = 0; kind < 3; ++kind) {
    const double value = exact[kind][0].item<double>();
    const Tensor wide = made[kind].to(at::kDouble);
    const double low = wide.min().item<double>(), high = wide.max().item<double>(), step = high - low;
    CHECK((low < value && value < high && step <= std::abs(value) / 128));
    CHECK(std::abs(wide.mean().item<double>() - value) <
          4 * std::sqrt((value - low) * (high - value) / static_cast<double>(kCount)));
    const Tensor up = (wide - low) / step;
    ups.push_back((up - up.mean()) / up.std());
  }
  const double error = 1 / std::sqrt(static_cast<double>(kCount));
  for (const auto& [a, b] : {std::pair(0, 1), std::pair(0, 2), std::pair(1, 2)})
    CHECK(std::abs((ups[a] * ups[b]).mean().item<double>()) < 4 * error);
  for (const Tensor& up : ups)  // neighbours
    CHECK(std::abs((up.slice(0, 1) * up.slice(0, 0, kCount - 1)).mean().item<double>()) < 4 * error);
  Update next = update;
  next.step = update.step + 1;
  CHECK_FALSE(at::equal(next.updated()[1], made[1]));
}

TEST_CASE("stochastic rounding has the same bits for any number of threads, and for shards") {
  const at::ScalarType type = GENERATE(at::kBFloat16, at::kFloat);
  const Update whole = stochastic(50'003, type, {.stream = 21});
  check_same_with_threads([&] { return whole.updated(); });
  const Tensors made = whole.updated();
  for (const std::int64_t border : {8, 16'384, 33'335}) {
    Update parts = whole;
    parts.rounding.clear();
    for (Tensors* const list : {&parts.parameters, &parts.exp_avgs, &parts.exp_avg_sqs, &parts.gradients})
      *list = {(*list)[0].slice(0, 0, border).clone(), (*list)[0].slice(0, border).clone()};
    parts.round({.stream = 21}), parts.round({.stream = 21, .begin = border});
    const Tensors of_parts = parts.updated();
    for (std::size_t kind = 0; kind < 3; ++kind) {
      CHECK(at::equal(of_parts[2 * kind], made[kind].slice(0, 0, border)));
      CHECK(at::equal(of_parts[2 * kind + 1], made[kind].slice(0, border)));
    }
  }
}

TEST_CASE("stochastic rounding keeps values of bf16, infinities and nans, and may overflow as nearest does") {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const std::uint32_t draw : {0u, 1u, 0x8000u, 0xffffu}) {
    for (const float x : {0.0f, -0.0f, 1.0f, -3.0f, 0x1p-133f, 0x1.fep127f, kInf, -kInf})
      CHECK(stochastic_bf16(x, draw) == at::BFloat16(x).x);
    for (const float nan : {std::nanf(""), -std::nanf(""), std::bit_cast<float>(0x7f800001u),
                            std::bit_cast<float>(0xffffffffu)})
      CHECK(stochastic_bf16(nan, draw) == 0x7fc0);
  }
  const float largest = std::numeric_limits<float>::max();  // 65535 / 65536 of the way to 2^128
  CHECK(stochastic_bf16(largest, 0) == 0x7f7f);
  CHECK(stochastic_bf16(-largest, 1) == 0xff80);
  CHECK(stochastic_bf16(-1.00390625f, 0x7fff) == 0xbf80);  // half way
  CHECK(stochastic_bf16(-1.00390625f, 0x8000) == 0xbf81);
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
  check_update("rounding has five integers for each tensor", [](Update& u) { u.rounding = {1, 2, 3, 4}; });
  check_update("rounding has rows", [](Update& u) { u.round({.row = 0}); });
  check_update("step is Float [1]", [](Update& u) { u.step = u.step.view({1}); });
  Update apart = of({8}, at::kFloat);
  apart.exp_avgs[0] = at::randn({16}).slice(0, 0, 16, 2);
  CHECK_THROWS_AS(call_op("adamw_", apart.arguments()), Error);
}

}  // namespace rondo
