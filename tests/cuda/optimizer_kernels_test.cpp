// The CUDA kernels of optimizers on the host (tests/cuda/host/cuda_runtime_api.h) against the CPU's
// kernels.
#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cmath>
#include <tuple>
#include <utility>
#include <vector>

#include "ops/adamw/adamw_cuda.h"
#include "ops/muon/muon_cuda.h"
#include "tests/cuda/element_of.h"
#include "tests/ops/append_draws.h"
#include "tests/ops/call_op.h"

namespace rondo {
namespace {

using at::Tensor;
using Tensors = std::vector<Tensor>;

// Returns whether the values are equal; a nan is equal to a nan, whose bits differ between devices.
bool same(const Tensor& a, const Tensor& b) { return at::allclose(a, b, 0, 0, /*equal_nan=*/true); }

// Returns sizes and draws of more tensors than a launch takes.
std::vector<std::pair<std::int64_t, RoundingDraws>> many_tensors() {
  std::vector<std::pair<std::int64_t, RoundingDraws>> tensors;
  constexpr std::int64_t kFar = std::int64_t{1} << 40;
  for (const std::int64_t count : {1, 255, 0, 16384, 2 * 16384 + 700, 16391})
    tensors.emplace_back(count, RoundingDraws{.stream = count});
  const auto add = [&](std::int64_t count, const RoundingDraws& draws) {
    tensors.emplace_back(count, draws);
  };
  add(20'000, {.stream = -7, .first = kFar, .row = 24, .pitch = 96, .begin = 16});
  add(20'000, {.stream = 8, .first = kFar, .row = 20'008, .pitch = kFar, .begin = 20'000});
  add(5'000, {.stream = kFar, .first = 5, .begin = 3});
  add(5'000, {.stream = kFar, .first = 3, .begin = 2});
  add(5'000, {.stream = 9, .first = 7, .row = 13, .pitch = 26, .begin = 6});
  for (int i = 0; i < 110; ++i) add(1 + i, {.stream = i});
  return tensors;
}

// Appends a copy of x, at an odd address for every third tensor.
void append(Tensors& list, const Tensor& x, at::ScalarType dtype) {
  const std::int64_t odd = std::ssize(list) % 3 == 2 ? 1 : 0;
  list.push_back(at::empty({x.numel() + odd}, dtype).narrow(0, odd, x.numel()).copy_(x));
}

// Sets zeros, and numbers so small or large that a kernel divides them by a slower, exact way.
void set_extremes(const Tensor& gradient) {
  std::int64_t place = 8;
  for (const float extreme : {0.0f, -0.0f, 1e-42f, -1e-25f, 1e-18f, 1e18f, 1e25f})
    gradient[place++] = extreme;
}

}  // namespace

TEST_CASE("an optimizer update has the bits of the CPU's kernel, for more tensors than a launch takes") {
  using Types = std::tuple<at::ScalarType, at::ScalarType, at::ScalarType>;
  const auto [type, of_moments, of_gradients] =
      GENERATE(values<Types>({{at::kFloat, at::kFloat, at::kFloat},
                              {at::kBFloat16, at::kBFloat16, at::kBFloat16},
                              {at::kFloat, at::kFloat, at::kBFloat16},
                              {at::kFloat, at::kBFloat16, at::kFloat},
                              {at::kFloat, at::kBFloat16, at::kBFloat16}}));
  const bool is_stochastic = GENERATE(false, true);
  if (is_stochastic && of_moments != at::kBFloat16) return;  // such a launch rounds to nearest
  const AdamWOptions o{.decoupled_weight_decay = GENERATE(true, false)};
  const bool skipped = GENERATE(false, true);
  const float gradient_scale = GENERATE(1.0f, 1.3f, 3e12f);
  Tensors parameters, exp_avgs, exp_avg_sqs, gradients;
  std::vector<cuda::RoundedTensor> updated;
  std::vector<std::int64_t> rounding;
  for (const auto& [count, draws] : many_tensors()) {
    append(parameters, at::randn({count}), type);
    append(exp_avgs, at::randn({count}), of_moments);
    append(exp_avg_sqs, at::rand({count}), of_moments);
    append(gradients, at::randn({count}), of_gradients);
    if (is_stochastic) append_draws(rounding, draws);
    updated.push_back({{nullptr, nullptr, nullptr, nullptr, count}, draws});
  }
  if (of_moments != at::kFloat) exp_avgs[3][5] = exp_avg_sqs[4][7] = std::nanf("");
  set_extremes(gradients[4]);
  const Tensor step = at::full({}, 5.0f), lr = at::full({}, 3e-3f), scale = at::full({}, gradient_scale),
               found_inf = at::full({}, skipped ? 1.0f : 0.0f);
  const std::vector<Tensor> expected =
      call("adamw", parameters, exp_avgs, exp_avg_sqs, gradients, step, lr, scale, found_inf, o.beta1,
           o.beta2, o.eps, o.weight_decay, o.decoupled_weight_decay, rounding);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    updated[i].parameter = parameters[i].mutable_data_ptr();
    updated[i].exp_avg = exp_avgs[i].mutable_data_ptr();
    updated[i].exp_avg_sq = exp_avg_sqs[i].mutable_data_ptr();
    updated[i].gradient = gradients[i].const_data_ptr();
  }
  const cuda::UpdatedElements elements{element_of(parameters[0]), element_of(exp_avgs[0]),
                                       element_of(gradients[0])};
  const cuda::AdamWScalars scalars{step.const_data_ptr<float>(), lr.const_data_ptr<float>(),
                                   scale.const_data_ptr<float>(), found_inf.const_data_ptr<float>()};
  if (is_stochastic)
    cuda::adamw(elements, updated, scalars, o, nullptr);
  else
    cuda::adamw(elements, std::vector<cuda::UpdatedTensor>(updated.begin(), updated.end()), scalars, o,
                nullptr);
  const std::size_t count = parameters.size();
  for (std::size_t i = 0; i < count; ++i) {
    CHECK(same(parameters[i], expected[i]));
    CHECK(same(exp_avgs[i], expected[count + i]));
    CHECK(same(exp_avg_sqs[i], expected[2 * count + i]));
  }
}

TEST_CASE("momentums and updates of Muon have the bits of the CPU's kernel") {
  using Types = std::tuple<at::ScalarType, at::ScalarType, at::ScalarType>;
  static constexpr at::ScalarType kF32 = at::kFloat, kBf16 = at::kBFloat16;
  const auto [type, of_gradients, of_updates] = GENERATE(values<Types>({{kF32, kF32, kF32},
                                                                        {kF32, kF32, kBf16},
                                                                        {kF32, kBf16, kF32},
                                                                        {kF32, kBf16, kBf16},
                                                                        {kBf16, kF32, kF32},
                                                                        {kBf16, kF32, kBf16},
                                                                        {kBf16, kBf16, kF32},
                                                                        {kBf16, kBf16, kBf16}}));
  const bool is_stochastic = GENERATE(false, true);
  if (is_stochastic && type != kBf16) return;  // such a launch rounds to nearest
  const auto [nesterov, gradient_scale, skipped] = GENERATE(values<std::tuple<bool, float, bool>>(
      {{true, 1.3f, false}, {false, 1.0f, false}, {true, 3e12f, false}, {true, 1.3f, true}}));
  if ((!nesterov || gradient_scale != 1.3f || skipped) && of_gradients != type) return;
  Tensors momentums, gradients, updates;
  std::vector<cuda::RoundedMomentumTensor> tensors;
  std::vector<std::int64_t> rounding;
  for (const auto& [count, draws] : many_tensors()) {
    append(momentums, at::randn({count}), type);
    append(gradients, at::randn({count}), of_gradients);
    append(updates, at::full({count}, 77), of_updates);
    if (is_stochastic) append_draws(rounding, draws);
    tensors.push_back({{nullptr, nullptr, nullptr, count}, draws});
  }
  momentums[3][5] = gradients[4][3] = std::nanf("");
  set_extremes(gradients[4]);
  const Tensor step = at::full({}, 5.0f), scale = at::full({}, gradient_scale),
               found_inf = at::full({}, skipped ? 1.0f : 0.0f);
  const MuonOptions o{0.9, nesterov};
  const Tensors expected = call("muon_momentum", momentums, gradients, scale, found_inf, step, rounding,
                                o.momentum, o.nesterov, static_cast<std::int64_t>(of_updates));
  const std::size_t count = momentums.size();
  for (std::size_t i = 0; i < count; ++i) {
    tensors[i].momentum = momentums[i].mutable_data_ptr();
    tensors[i].gradient = gradients[i].const_data_ptr();
    tensors[i].update = updates[i].mutable_data_ptr();
  }
  const cuda::MomentumElements elements{element_of(momentums[0]), element_of(gradients[0]),
                                        element_of(updates[0])};
  const cuda::MomentumScalars scalars{scale.const_data_ptr<float>(), found_inf.const_data_ptr<float>(),
                                      step.const_data_ptr<float>()};
  if (is_stochastic)
    cuda::muon_momentum(elements, tensors, scalars, o, nullptr);
  else
    cuda::muon_momentum(elements, std::vector<cuda::MomentumTensor>(tensors.begin(), tensors.end()), scalars,
                        o, nullptr);
  for (std::size_t i = 0; i < count; ++i) {
    CHECK(same(momentums[i], expected[i]));
    CHECK(same(updates[i], expected[count + i]));
  }
}

TEST_CASE("parameters that Muon updates have the bits of the CPU's kernel") {
  const at::ScalarType type = GENERATE(at::kFloat, at::kBFloat16),
                       of_updates = GENERATE(at::kFloat, at::kBFloat16);
  const bool is_stochastic = GENERATE(false, true);
  if (is_stochastic && type != at::kBFloat16) return;  // such a launch rounds to nearest
  const bool skipped = GENERATE(false, true);
  Tensors parameters, updates;
  std::vector<cuda::RoundedAppliedTensor> tensors;
  std::vector<std::int64_t> rounding;
  std::vector<double> scales;
  for (const auto& [count, draws] : many_tensors()) {
    append(parameters, at::randn({count}), type);
    append(updates, at::randn({count}), of_updates);
    scales.push_back(0.1 + 0.01 * static_cast<double>(scales.size()));
    if (is_stochastic) append_draws(rounding, draws);
    tensors.push_back({{nullptr, nullptr, count, scales.back()}, draws});
  }
  parameters[3][5] = updates[4][7] = std::nanf("");
  const Tensor step = at::full({}, 5.0f), lr = at::full({}, 0.02f),
               found_inf = at::full({}, skipped ? 1.0f : 0.0f);
  const Tensors expected =
      call("muon_apply", parameters, updates, lr, found_inf, step, rounding, 0.1, scales);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    tensors[i].parameter = parameters[i].mutable_data_ptr();
    tensors[i].update = updates[i].const_data_ptr();
  }
  const cuda::AppliedElements elements{element_of(parameters[0]), element_of(updates[0])};
  const cuda::AppliedScalars scalars{lr.const_data_ptr<float>(), found_inf.const_data_ptr<float>(),
                                     step.const_data_ptr<float>()};
  if (is_stochastic)
    cuda::muon_apply(elements, tensors, scalars, 0.1, nullptr);
  else
    cuda::muon_apply(elements, std::vector<cuda::AppliedTensor>(tensors.begin(), tensors.end()), scalars, 0.1,
                     nullptr);
  for (std::size_t i = 0; i < parameters.size(); ++i) CHECK(same(parameters[i], expected[i]));
}

}  // namespace rondo
