// Both exchanges of rows against experts of one rank, in double precision; ranks are threads of
// this process that meet over Gloo, each by a name of its own for the group.
#include "parallel/expert_parallel.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/autograd.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "ops/all_to_all_tokens/all_to_all_tokens.h"
#include "support/error.h"
#include "tests/parallel/rank_threads.h"

namespace rondo {
namespace {

using at::Tensor;
using Tensors = std::vector<Tensor>;

constexpr std::int64_t kRanks = 3, kTokens = 11, kCopies = 2, kWidth = 5, kExperts = 6;

struct Problem {
  Tensor x, experts, scores, scale, weight;  // tokens of all ranks; an expert multiplies by a row of `scale`
};

Problem problem(const std::string& routing) {
  Problem p;
  const std::int64_t all = kRanks * kTokens;
  p.x = at::randn({all, kWidth}, at::kDouble);
  p.scores = at::rand({all, kCopies}, at::kDouble);
  p.scale = at::randn({kExperts, kWidth}, at::kDouble);
  p.weight = at::randn({all, kWidth}, at::kDouble);
  p.experts = at::randint(0, kExperts, {all, kCopies}, at::kLong);
  if (routing == "all to one") p.experts.fill_(3);
  if (routing == "one rank gets none") p.experts.clamp_(2, 5);
  if (routing == "each rank to another one")
    p.experts =
        (at::arange(all).div(kTokens, "floor") * 2 + 3).remainder(kExperts).unsqueeze(1).repeat({1, kCopies});
  return p;
}

// y, and the gradients of x, scores and scale, of the tokens [first, first + count).
Tensors forward_backward(const Problem& p, std::int64_t first, std::int64_t count,
                         const ExpertParallelOptions& options) {
  const auto mine = [&](const Tensor& t) { return t.narrow(0, first, count).clone(); };
  Tensor x = mine(p.x).requires_grad_(true), scores = mine(p.scores).requires_grad_(true);
  Tensor scale = p.scale.clone().requires_grad_(true);
  const Tensor experts = mine(p.experts);
  const auto ep = expert_parallel(options);
  const Dispatched dispatched = ep->dispatch(x, experts, kExperts);
  const std::int64_t each = kExperts / options.group.ranks, rows = dispatched.rows_RD.size(0);
  // The expert of each row: how many ends are at or below it. Those behind the last have a factor
  // too.
  const Tensor row = at::arange(rows, at::kInt).unsqueeze(1);
  const Tensor expert_R =
      at::sum(row >= dispatched.ends_E.unsqueeze(0), 1).clamp_max(each - 1) + options.rank * each;
  const Tensor y = ep->combine(dispatched.rows_RD * at::index_select(scale, 0, expert_R), dispatched, scores);
  Tensors made = torch::autograd::grad({(y * mine(p.weight)).sum()}, {x, scores, scale});
  made.insert(made.begin(), y.detach());
  return made;
}

struct Way {
  ExpertExchange exchange;
  ExpertCombine combine;
};

// Returns the results of forward_backward for the tokens of each rank.
std::vector<Tensors> on_all_ranks(const Problem& p, const Way& way) {
  std::vector<Tensors> results(kRanks);
  on_ranks(kRanks, [&](std::int64_t rank, const AxisGroup& group) {
    ExpertParallelOptions options{group, rank, way.exchange};
    options.combine = way.combine;
    results[static_cast<std::size_t>(rank)] = forward_backward(p, rank * kTokens, kTokens, options);
  });
  return results;
}

}  // namespace

TEST_CASE(
    "experts of several ranks give what experts of one rank give, and the same gradients, however uneven") {
  const Way way = GENERATE(Way{ExpertExchange::fixed_size, ExpertCombine::reduce_scatter},
                           Way{ExpertExchange::fixed_size, ExpertCombine::all_to_all},
                           Way{ExpertExchange::exact_counts, ExpertCombine::reduce_scatter});
  const std::string routing =
      GENERATE(as<std::string>{}, "random", "all to one", "one rank gets none", "each rank to another one");
  INFO(name_of(way.exchange) << ", " << name_of(way.combine) << ", " << routing);
  const Problem p = problem(routing);
  const Tensors expected = forward_backward(p, 0, kRanks * kTokens, {});
  const std::vector<Tensors> results = on_all_ranks(p, way);
  Tensor scale_gradient = at::zeros_like(p.scale);
  for (std::int64_t rank = 0; rank < kRanks; ++rank) {
    const Tensors& of_rank = results[static_cast<std::size_t>(rank)];
    REQUIRE(of_rank.size() == 4);
    for (std::size_t i = 0; i < 3; ++i)
      CHECK(at::allclose(of_rank[i], expected[i].narrow(0, rank * kTokens, kTokens), 1e-12, 1e-12));
    scale_gradient = scale_gradient + of_rank[3];
  }
  CHECK(at::allclose(scale_gradient, expected[3], 1e-12, 1e-12));
}

TEST_CASE("an all-to-all of sums has the bits of a reduce-scatter in fp32, and rounds each sum in bf16") {
  const auto dtype = GENERATE(at::kFloat, at::kBFloat16);
  Problem p = problem("random");
  for (Tensor* t : {&p.x, &p.scale, &p.weight}) *t = t->to(dtype);
  p.scores = p.scores.to(at::kFloat);
  const auto scattered = on_all_ranks(p, {ExpertExchange::fixed_size, ExpertCombine::reduce_scatter}),
             exchanged = on_all_ranks(p, {ExpertExchange::fixed_size, ExpertCombine::all_to_all});
  for (const std::size_t i : {0, 1}) {  // y, and the gradient of x
    bool same = true;
    for (std::size_t rank = 0; rank < kRanks; ++rank) {
      const Tensor &expected = scattered[rank][i], &received = exchanged[rank][i];
      CHECK(received.scalar_type() == dtype);
      same = same && at::equal(received, expected);
      // The terms of a sum may be larger than the sum.
      CHECK(at::allclose(received.to(at::kFloat), expected.to(at::kFloat), 0.02, 0.05));
    }
    // A part of a gradient is one row of bf16, or the whole sum: each token has two slots.
    CHECK(same == (dtype == at::kFloat || i == 1));
  }
}

TEST_CASE("rows beyond the room are counted, and left out on both ways") {
  const auto exchange = GENERATE(ExpertExchange::fixed_size, ExpertExchange::exact_counts);
  Problem p = problem("all to one");
  std::vector<double> without_room(kRanks);
  std::vector<Tensor> y(kRanks);
  on_ranks(kRanks, [&](std::int64_t rank, const AxisGroup& group) {
    const auto ep = expert_parallel({group, rank, exchange, 0.5});  // a capacity of 11 rows
    const Tensor experts = p.experts.narrow(0, 0, kTokens), x = p.x.narrow(0, rank * kTokens, kTokens);
    const Dispatched d = ep->dispatch(x, experts, kExperts);
    const auto i = static_cast<std::size_t>(rank);
    without_room[i] = d.dropped_tokens.item<float>();
    y[i] = ep->combine(d.rows_RD, d, at::ones({kTokens, kCopies}, at::kDouble));
  });
  CHECK(without_room == std::vector<double>{0, kRanks * kTokens * kCopies - 11, 0});
  // The first 11 slots are those of 5 tokens and a half of rank 0.
  CHECK(at::allclose(y[0].narrow(0, 0, 5), p.x.narrow(0, 0, 5) * 2));
  CHECK(at::allclose(y[0][5], p.x[5]));
  for (const Tensor& none : {y[0].narrow(0, 6, 5), y[1], y[2]})
    CHECK(at::sum(none.abs()).item<double>() == 0);
}

TEST_CASE("both exchanges leave out the same rows, and give the same results and gradients without them") {
  const double factor = GENERATE(0.1, 0.5, 0.9, 1.0);
  const std::string routing = GENERATE(as<std::string>{}, "random", "one rank gets none");
  INFO(routing << ", room for " << factor);
  const Problem p = problem(routing);
  std::vector<Tensors> fixed(kRanks), exact(kRanks);
  on_ranks(kRanks, [&](std::int64_t rank, const AxisGroup& group) {
    const auto i = static_cast<std::size_t>(rank);
    for (const auto& [exchange, made] : {std::pair(ExpertExchange::fixed_size, &fixed[i]),
                                         std::pair(ExpertExchange::exact_counts, &exact[i])})
      *made = forward_backward(p, rank * kTokens, kTokens, {group, rank, exchange, factor});
  });
  for (std::size_t rank = 0; rank < kRanks; ++rank)
    for (std::size_t i = 0; i < fixed[rank].size(); ++i)
      CHECK(at::allclose(exact[rank][i], fixed[rank][i], 1e-12, 1e-12));
}

TEST_CASE("of an exchange's rows those go that the receiver has room for, and what comes more is refused") {
  const Tensor rows = at::arange(kRanks * 4, at::kFloat).view({kRanks * 4, 1}).to(at::kBFloat16);
  const Tensor offered = at::full({kRanks}, 4, at::kInt), sent = at::full({kRanks}, 3, at::kInt);
  std::vector<Tensor> came(kRanks), home(kRanks);
  std::vector<std::string> refused(kRanks);
  on_ranks(kRanks, [&](std::int64_t rank, const AxisGroup& group) {
    const auto i = static_cast<std::size_t>(rank);
    const Tensor own = rows + rank * 100;
    came[i] = all_to_all_tokens(own, {offered, sent, sent}, /*back=*/false, 10, group.name);
    home[i] = all_to_all_tokens(came[i], {offered, sent, sent}, /*back=*/true, kRanks * 4, group.name);
    try {
      all_to_all_tokens(own, {offered, sent, sent}, /*back=*/false, 8, group.name);
    } catch (const Error& error) {
      refused[i] = error.what();
    }
  });
  for (std::int64_t rank = 0; rank < kRanks; ++rank) {
    const auto i = static_cast<std::size_t>(rank);
    CHECK(came[i].size(0) == 10);
    for (std::int64_t from = 0; from < kRanks; ++from)
      CHECK(at::equal(came[i].narrow(0, from * 3, 3), (rows + from * 100).narrow(0, rank * 4, 3)));
    CHECK(came[i][9].item<float>() == 0);
    for (std::int64_t row = 0; row < kRanks * 4; ++row)
      CHECK(at::equal(home[i][row], row % 4 < 3 ? rows[row] + rank * 100 : at::zeros_like(rows[row])));
    CHECK(refused[i].find("received rows exceed the result") != std::string::npos);
  }
}

}  // namespace rondo
