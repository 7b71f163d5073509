// muon_momentum and muon_apply on the CPU: against the kernels that torch.optim.Muon calls, bit for
// bit, and against the formula in f64.
#include "ops/muon/muon.h"

#include <ATen/TensorOperators.h>
#include <ATen/Version.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/lerp.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>

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

// A call of muon_momentum, or of muon_apply. `state` has the momentums or the parameters, `read`
// the gradients or the orthogonalized updates.
struct MuonCall {
  Tensors state, read;
  Tensor gradient_scale = at::full({}, 1.7f), learning_rate = at::full({}, 0.02f),
         found_inf = at::full({}, 0.0f), step = at::full({}, 3.0f);
  std::vector<std::int64_t> rounding = {};
  MuonOptions options = {};
  at::ScalarType dtype = at::kFloat;
  double weight_decay = 0.1;
  std::vector<double> scales = {};

  void add(const std::vector<std::int64_t>& sizes, at::ScalarType type) {
    state.push_back((at::randn(sizes) * 0.1).to(type));
    read.push_back(at::randn(sizes).to(type));
    scales.push_back(0.2 * std::sqrt(64 + 7 * static_cast<double>(scales.size())));
  }
  std::vector<Argument> of_momentum() const {
    return {state,
            read,
            gradient_scale,
            found_inf,
            step,
            rounding,
            options.momentum,
            options.nesterov,
            static_cast<std::int64_t>(dtype)};
  }
  std::vector<Argument> of_apply() const {
    return {state, read, learning_rate, found_inf, step, rounding, weight_decay, scales};
  }
  Tensors accumulated() const { return checked_call("muon_momentum", of_momentum()); }
  Tensors applied() const { return checked_call("muon_apply", of_apply()); }
  // Returns the new state, whichever op it is.
  Tensors updated(bool by_momentum) const {
    Tensors results = by_momentum ? accumulated() : applied();
    results.resize(state.size());
    return results;
  }
};

MuonCall muon_call(const std::vector<std::int64_t>& counts, at::ScalarType type) {
  MuonCall call;
  call.dtype = type;
  for (const std::int64_t count : counts) call.add({count}, type);
  return call;
}

Tensors muon_copies(const Tensors& tensors) {
  Tensors copies;
  for (const Tensor& tensor : tensors) copies.push_back(tensor.clone());
  return copies;
}

void check_equal(const Tensors& some, const Tensors& others) {
  REQUIRE(some.size() == others.size());
  for (std::size_t i = 0; i < some.size(); ++i) CHECK(at::equal(some[i], others[i]));
}

}  // namespace

TEST_CASE("momentums, updates and parameters have the bits of torch.optim.Muon's vectorized kernels") {
  if (at::get_cpu_capability() == "DEFAULT") SKIP("its kernels have no fused multiply-add on this machine");
  const at::ScalarType type = GENERATE(at::kFloat, at::kDouble);
  MuonCall call = muon_call({32, 4096, 100'000}, type);
  call.add({3, 5, 32}, type);
  call.options.momentum = GENERATE(0.95, 0.4, 0.0);
  call.options.nesterov = GENERATE(true, false);
  const Tensors results = call.accumulated(), parameters = call.applied();
  const std::size_t count = call.state.size();
  const double lr = call.learning_rate.item<double>();
  for (std::size_t k = 0; k < count; ++k) {
    const Tensor gradient = call.read[k] / call.gradient_scale;
    const Tensor momentum = at::lerp(call.state[k], gradient, 1 - call.options.momentum);
    const Tensor update =
        call.options.nesterov ? at::lerp(gradient, momentum, call.options.momentum) : momentum;
    CHECK(at::equal(results[k], momentum));
    CHECK(at::equal(results[count + k], update));
    Tensor parameter = call.state[k].clone();
    parameter.mul_(1 - lr * call.weight_decay).add_(call.read[k], -(lr * call.scales[k]));
    CHECK(at::equal(parameters[k], parameter));
  }
}

TEST_CASE("momentums, updates and parameters follow the formula for all dtypes and sizes") {
  const at::ScalarType type = any_dtype();
  MuonCall call = muon_call({1, 7, 16'383, 16'384 + 3}, type);
  call.options.nesterov = GENERATE(true, false);
  const Tensors results = call.accumulated(), parameters = call.applied();
  const double scale = call.gradient_scale.item<double>(), lr = call.learning_rate.item<double>(),
               mu = call.options.momentum;
  for (std::size_t k = 0; k < call.state.size(); ++k) {
    const Tensor state = call.state[k].to(at::kDouble), read = call.read[k].to(at::kDouble);
    Tensor momentum = state.clone(), update = state.clone(), parameter = state.clone();
    for (std::int64_t i = 0; i < state.numel(); ++i) {
      const double old = state.const_data_ptr<double>()[i], x = read.const_data_ptr<double>()[i];
      const double g = x / scale, now = mu * old + (1 - mu) * g;
      momentum.mutable_data_ptr<double>()[i] = now;
      update.mutable_data_ptr<double>()[i] = call.options.nesterov ? (1 - mu) * g + mu * now : now;
      parameter.mutable_data_ptr<double>()[i] = old * (1 - lr * call.weight_decay) - lr * call.scales[k] * x;
    }
    check_close(results[k], momentum);
    check_close(results[call.state.size() + k], update);
    check_close(parameters[k], parameter);
  }
}

TEST_CASE("the in-place forms of Muon give the same bits, and no form writes what it reads") {
  const MuonCall call = muon_call({1000, 40'001}, any_dtype());
  MuonCall momentum = call, apply = call;
  momentum.state = muon_copies(call.state), apply.state = muon_copies(call.state);
  const Tensors read = muon_copies(call.read);
  Tensors results = momentum.state, updates = call_op("muon_momentum_", momentum.of_momentum());
  results.insert(results.end(), updates.begin(), updates.end());
  check_equal(results, call.accumulated());
  CHECK(call_op("muon_apply_", apply.of_apply()).empty());
  check_equal(apply.state, call.applied());
  check_equal(call.read, read);
}

TEST_CASE("if a step of Muon is not finite, no bit of the state changes, and updates are zero") {
  MuonCall call = muon_call({100}, at::kFloat);
  constexpr float kNotANumber = std::numeric_limits<float>::quiet_NaN();
  call.dtype = GENERATE(at::kFloat, at::kBFloat16);
  call.read[0].fill_(kNotANumber), call.gradient_scale.fill_(kNotANumber), call.found_inf.fill_(1);
  const Tensors results = call.accumulated();
  CHECK(at::equal(results[0], call.state[0]));
  CHECK((results[1] == 0).all().item<bool>());
  CHECK(results[1].scalar_type() == call.dtype);
  CHECK(at::equal(call.applied()[0], call.state[0]));
}

TEST_CASE("Muon's ops give the same bits for any number of threads, with other tensors, and if strided") {
  MuonCall all = muon_call({100'003, 0, 17}, at::kFloat);
  all.add({40, 30}, at::kBFloat16);
  check_same_with_threads([&] { return all.accumulated(); });
  check_same_with_threads([&] { return all.applied(); });
  MuonCall one = all;
  one.state = {all.state[3]}, one.read = {all.read[3].t().contiguous().t()}, one.scales = {all.scales[3]};
  const Tensors alone = one.accumulated(), together = all.accumulated();
  CHECK(at::equal(alone[0], together[3]));
  CHECK(at::equal(alone[1], together[7]));
  CHECK(at::equal(one.applied()[0], all.applied()[3]));
}

TEST_CASE("gradients and updates in bf16 give the bits of the same numbers in f32, and the reverse") {
  const at::ScalarType type = GENERATE(at::kFloat, at::kBFloat16);
  MuonCall narrow = muon_call({5, 40'001}, type), wide = narrow;
  for (std::size_t k = 0; k < narrow.read.size(); ++k) {
    narrow.read[k] = narrow.read[k].to(at::kBFloat16);
    wide.read[k] = narrow.read[k].to(at::kFloat);
  }
  check_equal(narrow.accumulated(), wide.accumulated());
  check_equal(narrow.applied(), wide.applied());
}

TEST_CASE("momentums and updates in bf16 are the f32 ones rounded once") {
  MuonCall wide = muon_call({5, 40'001}, at::kFloat);
  for (Tensor& state : wide.state) state = state.to(at::kBFloat16).to(at::kFloat);
  MuonCall narrow = wide;
  narrow.dtype = at::kBFloat16;
  for (Tensor& state : narrow.state) state = state.to(at::kBFloat16);
  Tensors expected = wide.accumulated();
  for (Tensor& tensor : expected) tensor = tensor.to(at::kBFloat16);
  check_equal(narrow.accumulated(), expected);
}

TEST_CASE("Muon's state in bf16 is rounded stochastically by the draw of each element's index") {
  const bool by_momentum = GENERATE(true, false);
  const RoundingDraws draws =
      GENERATE(RoundingDraws{.stream = -5, .first = std::int64_t{1} << 40},
               RoundingDraws{.stream = 3, .first = 5, .begin = 3},
               RoundingDraws{.stream = 4, .first = 16, .row = 24, .pitch = 48, .begin = 8},
               RoundingDraws{.stream = 6, .first = 9, .row = 17'000, .pitch = 170'000, .begin = 100});
  const std::int64_t count = GENERATE(1, 9, 40'001);
  MuonCall call = muon_call({count}, at::kBFloat16);
  append_draws(call.rounding, draws);
  MuonCall wide = call;
  wide.state[0] = call.state[0].to(at::kFloat);  // f32 is not rounded
  const Tensor state = call.updated(by_momentum)[0], exact = wide.updated(by_momentum)[0];
  std::int64_t different = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t j = draws.begin + i, index = draws.first + j / draws.row * draws.pitch + j % draws.row;
    const PhiloxWords words = draws.words(index / 8, 3, by_momentum ? muon::kMomentum : muon::kParameter);
    different +=
        state.const_data_ptr<at::BFloat16>()[i].x !=
        stochastic_bf16(exact.const_data_ptr<float>()[i], draw_of(words, static_cast<int>(index % 8)));
  }
  CHECK(different == 0);
  if (by_momentum) {  // its updates are rounded to nearest
    const Tensor rounded = call.accumulated()[1];
    call.rounding.clear();
    CHECK(at::equal(rounded, call.accumulated()[1]));
  }
}

TEST_CASE("stochastic rounding of Muon's state has the same bits for any number of threads, and for shards") {
  const bool by_momentum = GENERATE(true, false);
  MuonCall whole = muon_call({50'003}, at::kBFloat16);
  append_draws(whole.rounding, {.stream = 21});
  check_same_with_threads([&] { return whole.updated(by_momentum); });
  const Tensor state = whole.updated(by_momentum)[0];
  for (const std::int64_t border : {8, 16'384, 33'335}) {
    MuonCall parts = whole;
    parts.rounding.clear();
    for (Tensors* const list : {&parts.state, &parts.read})
      *list = {(*list)[0].slice(0, 0, border).clone(), (*list)[0].slice(0, border).clone()};
    parts.scales = {whole.scales[0], whole.scales[0]};
    append_draws(parts.rounding, {.stream = 21}),
        append_draws(parts.rounding, {.stream = 21, .begin = border});
    check_equal(parts.updated(by_momentum), {state.slice(0, 0, border), state.slice(0, border)});
  }
}

TEST_CASE("Muon's ops refuse unsupported operands") {
  const auto check_momentum = [](const std::string& words, const auto& change) {
    MuonCall call = muon_call({8}, at::kFloat);
    change(call);
    for (const std::string op : {"muon_momentum", "muon_momentum_"})
      check_refused(words, op, call.of_momentum());
  };
  const auto check_apply = [](const std::string& words, const auto& change) {
    MuonCall call = muon_call({8}, at::kFloat);
    change(call);
    for (const std::string op : {"muon_apply", "muon_apply_"}) check_refused(words, op, call.of_apply());
  };
  const auto half_state = [](MuonCall& c) { c.state[0] = c.state[0].to(at::kHalf); };
  check_momentum("a momentum is Half", half_state);
  check_apply("a parameter is Half", half_state);
  const auto wide_read = [](MuonCall& c) { c.read[0] = c.read[0].to(at::kDouble); };
  check_momentum("a gradient is Double [8]", wide_read);
  check_apply("an update is Double [8]", wide_read);
  check_apply("an update is Float [2, 4]", [](MuonCall& c) { c.read[0] = c.read[0].view({2, 4}); });
  const auto fewer = [](MuonCall& c) { c.read.clear(); };
  check_momentum("the lists differ in length", fewer);
  check_apply("the lists differ in length", fewer);
  check_apply("the lists differ in length", [](MuonCall& c) { c.scales.push_back(1); });
  check_momentum("updates in Half beside", [](MuonCall& c) { c.dtype = at::kHalf; });
  check_momentum("updates in Double beside", [](MuonCall& c) { c.dtype = at::kDouble; });
  check_momentum("updates in BFloat16 beside momentums in Double", [](MuonCall& c) {
    c.state[0] = c.state[0].to(at::kDouble), c.read[0] = c.read[0].to(at::kDouble);
    c.dtype = at::kBFloat16;
  });
  const auto short_rounding = [](MuonCall& c) { c.rounding = {1, 2, 3, 4}; };
  check_momentum("rounding has five integers for each tensor", short_rounding);
  check_apply("rounding has five integers for each tensor", short_rounding);
  const auto long_step = [](MuonCall& c) { c.step = c.step.view({1}); };
  check_momentum("step is Float [1]", long_step);
  check_apply("step is Float [1]", long_step);
  MuonCall apart = muon_call({8}, at::kFloat);
  apart.state[0] = at::randn({16}).slice(0, 0, 16, 2);
  CHECK_THROWS_AS(call_op("muon_momentum_", apart.of_momentum()), Error);
  CHECK_THROWS_AS(call_op("muon_apply_", apart.of_apply()), Error);
}

}  // namespace rondo
