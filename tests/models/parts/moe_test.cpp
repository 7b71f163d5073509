// A whole mixture of experts against a reference in double precision that is written apart from it:
// every expert computes every token there, and what a token does not take counts nothing.
#include "models/parts/moe.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cmath>
#include <functional>
#include <map>
#include <vector>

#include "parallel/rank_context.h"
#include "support/scope.h"

namespace rondo {
namespace {

using at::Tensor;

struct Shape {
  std::int64_t sequences, length, dim, experts, top_k, hidden, shared_hidden;  // shared_hidden 0: none shared
  std::int64_t groups, limited;
  bool norm;
  double scale;
};

const std::vector<Shape> kShapes = {
    {2, 16, 32, 8, 2, 16, 32, 1, 1, false, 1.0},  // plain
    {3, 7, 13, 9, 3, 11, 5, 3, 2, true, 2.5},     // odd sizes, groups
    {1, 33, 24, 16, 4, 8, 8, 4, 2, true, 1.5},    // one sequence
    {5, 1, 17, 6, 1, 7, 0, 2, 1, false, 1.0},     // sequences of one token, one expert each, none shared
    {2, 9, 16, 5, 5, 12, 6, 1, 1, true, 1.0},     // all experts taken
    {1, 4, 20, 64, 2, 6, 9, 8, 1, true, 2.0},     // experts that get no token
    {4, 11, 31, 12, 3, 19, 0, 6, 3, false, 0.5},  // odd sizes, none shared
    {2, 20, 8, 10, 2, 3, 3, 5, 5, true, 1.0},     // all groups allowed
    {7, 3, 19, 2, 1, 1, 1, 1, 1, false, 3.0},     // two experts of width one
    {1, 1, 9, 7, 2, 5, 4, 1, 1, true, 1.0},       // one token
};

using Named = std::map<std::string, Tensor>;

Named random_weights(const Shape& s) {
  const auto weight = [](std::vector<std::int64_t> sizes) {
    return at::randn(sizes) * (1.5 / std::sqrt(static_cast<double>(sizes.back())));
  };
  Named w = {{"moe.router.gate.weight", weight({s.experts, s.dim})},
             {"moe.experts.w1.weight", weight({s.experts, s.hidden, s.dim})},
             {"moe.experts.w2.weight", weight({s.experts, s.dim, s.hidden})},
             {"moe.experts.w3.weight", weight({s.experts, s.hidden, s.dim})}};
  if (s.shared_hidden == 0) return w;
  w["moe.shared_experts.w1.weight"] = weight({s.shared_hidden, s.dim});
  w["moe.shared_experts.w2.weight"] = weight({s.dim, s.shared_hidden});
  w["moe.shared_experts.w3.weight"] = weight({s.shared_hidden, s.dim});
  return w;
}

// --- the reference ---

// The `count` largest of `of`, by what `value` says. REQUIREs that the next one is not as large but
// for rounding.
std::vector<std::int64_t> largest(std::vector<std::int64_t> of, std::int64_t count,
                                  const std::function<double(std::int64_t)>& value) {
  std::sort(of.begin(), of.end(), [&](auto a, auto b) { return value(a) > value(b); });
  const auto taken = static_cast<std::size_t>(count);
  if (taken < of.size()) REQUIRE(value(of[taken - 1]) - value(of[taken]) > 1e-6);
  of.resize(taken);
  return of;
}

std::vector<std::int64_t> numbers_to(std::int64_t count) {
  std::vector<std::int64_t> all;
  for (std::int64_t i = 0; i < count; ++i) all.push_back(i);
  return all;
}

// The experts that one token takes.
std::vector<std::int64_t> choice(const Tensor& scores_E, const Tensor& bias_E, const Shape& s) {
  const auto value = [&](std::int64_t e) { return scores_E[e].item<double>() + bias_E[e].item<double>(); };
  const std::int64_t size = s.experts / s.groups;
  const auto best_two = [&](std::int64_t group) {
    std::vector<double> of_group;
    for (std::int64_t e = group * size; e < (group + 1) * size; ++e) of_group.push_back(value(e));
    std::sort(of_group.rbegin(), of_group.rend());
    return s.groups == 1 ? 0.0 : of_group.at(0) + of_group.at(1);
  };
  std::vector<std::int64_t> allowed;
  for (const std::int64_t group : largest(numbers_to(s.groups), s.limited, best_two))
    for (std::int64_t e = group * size; e < (group + 1) * size; ++e) allowed.push_back(e);
  return largest(allowed, s.top_k, value);
}

Tensor feed_forward_of(const Tensor& x, const Tensor& w1, const Tensor& w2, const Tensor& w3) {
  const Tensor gate = at::matmul(x, w1.t());
  return at::matmul(gate * at::sigmoid(gate) * at::matmul(x, w3.t()), w2.t());
}

struct Reference {
  Tensor y, taken_TE, balance;  // balance: the sum over the sequences of sum f P
};
Reference reference(const Tensor& x, const Named& w, const Tensor& bias, const Shape& s, bool sigmoid) {
  const Tensor logits = at::matmul(x, w.at("moe.router.gate.weight").t());
  const Tensor powers = logits.exp();
  const Tensor scores = sigmoid ? 1 / (1 + (-logits).exp()) : powers / powers.sum(1, /*keepdim=*/true);
  const auto marked = [&](const Tensor& by_bias, const Shape& by) {
    Tensor marks = at::zeros_like(scores).detach();
    for (std::int64_t t = 0; t < x.size(0); ++t)
      for (const std::int64_t e : choice(scores[t].detach(), by_bias, by)) marks[t][e].fill_(1.0);
    return marks;
  };
  Shape without_groups = s;
  without_groups.groups = without_groups.limited = 1;
  const Tensor taken = marked(bias, s), preferred = marked(at::zeros_like(bias), without_groups);
  Tensor chosen = scores * taken;
  if (s.norm) chosen = chosen / chosen.sum(1, true);
  Tensor y = at::zeros_like(x).detach();
  const auto of_expert = [&](const char* name, std::int64_t e) { return w.at(name)[e]; };
  for (std::int64_t e = 0; e < s.experts; ++e)
    y = y + chosen.narrow(1, e, 1) * s.scale *
                feed_forward_of(x, of_expert("moe.experts.w1.weight", e),
                                of_expert("moe.experts.w2.weight", e), of_expert("moe.experts.w3.weight", e));
  if (s.shared_hidden > 0)
    y = y + feed_forward_of(x, w.at("moe.shared_experts.w1.weight"), w.at("moe.shared_experts.w2.weight"),
                            w.at("moe.shared_experts.w3.weight"));
  const auto by_sequence = [&](const Tensor& all) { return all.view({s.sequences, s.length, s.experts}); };
  const Tensor f = by_sequence(preferred).sum(1) * static_cast<double>(s.experts) /
                   static_cast<double>(s.top_k * s.length);
  const Tensor p = by_sequence(scores / scores.sum(1, true)).mean(1);
  return {y, taken, (f * p).sum()};
}

// --- and ours ---

struct Ours {
  explicit Ours(const Named& w) {
    ShardedParameters parameters;
    for (const auto& [name, value] : w) {
      leaves.push_back(value.flatten().clone().requires_grad_(true));
      parameters[name] = {leaves.back(), value.sizes().vec(), {}};
    }
    ranks = rank_context(std::move(parameters), {});
  }
  std::vector<Tensor> leaves;
  RankContext ranks;
};

void check_close(const Tensor& ours, const Tensor& wanted) {
  REQUIRE(ours.numel() == wanted.numel());
  const double scale = std::max(wanted.abs().max().item<double>(), 1e-12);
  CHECK((ours.to(at::kDouble).flatten() - wanted.flatten()).abs().max().item<double>() / scale < 2e-5);
}

MixtureOfExperts experts_of(const Shape& s, bool sigmoid) {
  return {{s.top_k, sigmoid, s.groups, s.limited, s.norm, s.scale},
          s.experts,
          s.hidden,
          s.shared_hidden,
          /*has_bias=*/true};
}

}  // namespace

TEST_CASE("outputs and all gradients of a mixture of experts are those of double precision") {
  const bool sigmoid = GENERATE(false, true);
  const double balance = GENERATE(0.0, 0.7);
  const auto number = GENERATE(0U, 1U, 2U, 3U, 4U, 5U, 6U, 7U, 8U, 9U);
  const Shape& s = kShapes.at(number);
  INFO("shape " << number << (sigmoid ? ", sigmoid" : ", softmax") << ", balance " << balance);
  at::manual_seed(100 + number);
  const Named w = random_weights(s);
  const Tensor x = at::randn({s.sequences * s.length, s.dim}), bias = at::randn({s.experts}) * 0.05;
  const Tensor weight = at::randn(x.sizes());

  Ours ours(w);
  const Tensor our_x = x.clone().requires_grad_(true);
  MoeOutput made;
  {
    ModuleScope scope("moe");
    made = mixture_of_experts(experts_of(s, sigmoid), our_x, ours.ranks, bias, {s.sequences, balance});
  }
  std::vector<Tensor> our_leaves = {our_x};
  our_leaves.insert(our_leaves.end(), ours.leaves.begin(), ours.leaves.end());
  const auto our_gradients = torch::autograd::grad({(made.y_TD * weight).sum()}, our_leaves);

  Named exact;
  std::vector<Tensor> leaves = {x.to(at::kDouble).requires_grad_(true)};
  for (const auto& [name, value] : w)
    leaves.push_back(exact[name] = value.to(at::kDouble).requires_grad_(true));
  const Reference wanted = reference(leaves[0], exact, bias.to(at::kDouble), s, sigmoid);
  const auto gradients =
      torch::autograd::grad({(wanted.y * weight.to(at::kDouble)).sum() + balance * wanted.balance}, leaves);

  CHECK((made.load.tokens_per_expert_E.to(at::kDouble) == wanted.taken_TE.sum(0)).all().item<bool>());
  check_close(made.y_TD, wanted.y);
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    INFO("leaf " << i);
    check_close(our_gradients[i], gradients[i]);
  }
}

TEST_CASE("the loss of a sequence's load is 1 where it is even, and grows to experts over top_k") {
  const Ours ours({});
  const auto loss = [&](const Tensor& scores, const Tensor& experts) {
    const SequenceLoss made = sequence_loss(scores, experts, ours.ranks, {.sequences = 2, .weight = 0.5});
    CHECK_FALSE(made.slopes_NE.requires_grad());
    return (made.affinities_NE * made.slopes_NE).sum().item<double>();  // half of the losses of two sequences
  };
  const Tensor each = at::eye(4).repeat({2, 1});  // four tokens a sequence, one to each expert
  CHECK(loss(each, at::tensor(std::vector<std::int64_t>{0, 1, 2, 3, 0, 1, 2, 3}).view({8, 1})) ==
        Catch::Approx(1.0));
  const Tensor first = at::eye(4).narrow(0, 0, 1).expand({8, 4}) * 0.3;
  CHECK(loss(first, at::zeros({8, 1}, at::kLong)) == Catch::Approx(4.0));
  // One sequence of each kind: what a sequence lacks, another does not make good.
  const Tensor mixed = at::cat({each.narrow(0, 0, 4), first.narrow(0, 0, 4)});
  CHECK(loss(mixed, at::tensor(std::vector<std::int64_t>{0, 1, 2, 3, 0, 0, 0, 0}).view({8, 1})) ==
        Catch::Approx(2.5));
}

}  // namespace rondo
