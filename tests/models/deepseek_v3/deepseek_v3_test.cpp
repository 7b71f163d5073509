// DeepSeek-V3's costs against published figures, and its parts against plain arithmetic in double
// precision.
#include "models/deepseek_v3/deepseek_v3.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/tril.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cmath>
#include <limits>
#include <numeric>

#include "config/load.h"
#include "models/parts/decoder.h"
#include "models/parts/moe.h"
#include "ops/attention/attention.h"
#include "ops/grouped_mm/grouped_linear.h"

namespace rondo {
namespace {

using at::Tensor;
using Tensors = std::vector<Tensor>;

DeepSeekV3Config flavor(const std::string& name) {
  return from_values<DeepSeekV3Config>(
      load_config({"--model.name=deepseek_v3", "--model.flavor=" + name, "--training.seq_len=8192"})
          .model.sizes);
}

double norm_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

// Routes one token in double precision, expert by expert. Returns the score of each expert that is
// taken.
std::vector<double> route_one(std::vector<double> logits, const std::vector<double>& bias,
                              const RouterOptions& o) {
  const std::size_t experts = logits.size(), groups = static_cast<std::size_t>(o.n_groups);
  std::vector<double> scores(experts), result(experts, 0.0);
  for (std::size_t e = 0; e < experts; ++e)
    scores[e] = o.sigmoid ? 1 / (1 + std::exp(-logits[e])) : std::exp(logits[e]);
  if (!o.sigmoid) {
    const double sum = norm_of(scores);
    for (double& score : scores) score /= sum;
  }
  const auto choice = [&](std::size_t e) { return scores[e] + bias[e]; };
  std::vector<std::size_t> allowed;
  std::vector<std::pair<double, std::size_t>> ranked;
  const std::size_t size = experts / groups;
  for (std::size_t g = 0; g < groups; ++g) {
    std::vector<double> of_group;
    for (std::size_t e = g * size; e < (g + 1) * size; ++e) of_group.push_back(choice(e));
    std::sort(of_group.rbegin(), of_group.rend());
    ranked.push_back({groups == 1 ? 0.0 : of_group[0] + of_group[1], g});
  }
  std::sort(ranked.rbegin(), ranked.rend());
  for (std::size_t i = 0; i < static_cast<std::size_t>(o.n_limited_groups); ++i)
    for (std::size_t e = 0; e < size; ++e) allowed.push_back(ranked[i].second * size + e);
  std::sort(allowed.begin(), allowed.end(), [&](auto a, auto b) { return choice(a) > choice(b); });
  allowed.resize(static_cast<std::size_t>(o.top_k));
  double sum = 0;
  for (const std::size_t e : allowed) sum += scores[e];
  for (const std::size_t e : allowed) result[e] = o.scale * (o.norm ? scores[e] / sum : scores[e]);
  return result;
}

std::vector<double> doubles(const Tensor& tensor) {
  const Tensor t = tensor.to(at::kDouble).contiguous();
  return {t.const_data_ptr<double>(), t.const_data_ptr<double>() + t.numel()};
}

Tensor ends_of(const std::vector<std::int32_t>& counts) {
  std::vector<std::int32_t> ends(counts.size());
  std::partial_sum(counts.begin(), counts.end(), ends.begin());
  return at::tensor(ends, at::kInt);
}

}  // namespace

TEST_CASE("DeepSeek-V3's parameters and FLOPs a token are the published ones") {
  struct Row {
    const char* flavor;
    std::int64_t parameters;
    double gflop_at_4096;
  };
  const Row row = GENERATE(Row{"debugmodel", 33'014'016, 0.920}, Row{"16B", 15'706'484'224, 18.106},
                           Row{"236B", 235'741'434'880, 185.51}, Row{"671B", 671'026'404'352, 281.16},
                           Row{"kimi_k2_1T", 1'026'408'209'408, 220.825});
  const auto model = make_decoder(flavor(row.flavor));
  INFO(row.flavor);
  CHECK(parameter_count(*model) == row.parameters);
  CHECK(static_cast<double>(model->flops_per_token(4096)) * 1e-9 ==
        Catch::Approx(row.gflop_at_4096).epsilon(5e-4));
}

TEST_CASE("routed experts are a bucket apart from the rest of their block") {
  const auto model = make_decoder(flavor("debugmodel"));
  for (const ParameterRule& rule : model->parameters()) {
    INFO(rule.name);
    if (rule.name.starts_with("layers.2.moe.experts.")) {
      CHECK(rule.bucket == "layers.2.experts");
    } else if (rule.name.starts_with("layers.2.")) {
      CHECK(rule.bucket == "layers.2");
    }
  }
  CHECK(model->expert_biases().size() == 5);  // one of six blocks is dense
  CHECK(model->expert_biases()[0].name == "layers.1.moe.expert_bias");
}

TEST_CASE("YaRN keeps fast rotations and divides slow ones by the factor") {
  DeepSeekV3Config scaled = flavor("671B"), plain = scaled;
  plain.rope_scaling_factor = 1.0;
  const auto angles = [](const DeepSeekV3Config& c) {  // at position 1
    return doubles(make_decoder(c)->buffers(2)[1].value[1].asin());
  };
  const std::vector<double> a = angles(scaled), b = angles(plain);
  REQUIRE(a.size() == 32);
  // 64 ln(4096 / (32 * 2 pi)) / (2 ln 10000) = 10.47 is truncated to 10, and with 1 turn 22.52 up
  // to 23.
  for (std::size_t i = 1; i < 32; ++i) {
    INFO(i);
    const double ramp = std::clamp((static_cast<double>(i) - 10.0) / 13.0, 0.0, 1.0);
    CHECK(a[i] == Catch::Approx(b[i] * (1 - ramp) + b[i] / 40.0 * ramp).epsilon(1e-5));
  }
}

TEST_CASE("routing agrees with double precision, expert by expert") {
  const bool sigmoid = GENERATE(false, true), norm = GENERATE(false, true);
  struct Groups {
    std::int64_t all, limited;
  };
  const Groups groups = GENERATE(Groups{1, 1}, Groups{4, 2}, Groups{8, 3}, Groups{2, 1});
  const RouterOptions options{3, sigmoid, groups.all, groups.limited, norm, norm ? 2.5 : 1.0};
  constexpr std::int64_t kTokens = 50, kExperts = 24;
  at::manual_seed(7);
  const Tensor logits = at::randn({kTokens, kExperts}) * 2, bias = at::randn({kExperts}) * 0.1;
  const Routing routing = route(logits, bias, options);
  const Tensor dense = at::zeros({kTokens, kExperts}).scatter(1, routing.experts_TK, routing.scores_TK);
  for (std::int64_t t = 0; t < kTokens; ++t) {
    const std::vector<double> expected = route_one(doubles(logits[t]), doubles(bias), options);
    const std::vector<double> ours = doubles(dense[t]);
    for (std::size_t e = 0; e < ours.size(); ++e) CHECK(ours[e] == Catch::Approx(expected[e]).margin(2e-6));
  }
  CHECK(at::equal(routing.tokens_per_expert_E, (dense > 0).sum(0).to(at::kFloat)));
}

TEST_CASE("the bias of an expert changes who is chosen and no score") {
  const RouterOptions options{1, true, 1, 1, false, 1.0};
  const Tensor logits = at::tensor(std::vector<float>{2, 1, 0}).view({1, 3});
  const Routing plain = route(logits, at::zeros({3}), options);
  const Routing biased = route(logits, at::tensor(std::vector<float>{-1, 0, 1}), options);
  CHECK(plain.experts_TK.item<std::int64_t>() == 0);
  CHECK(biased.experts_TK.item<std::int64_t>() == 2);
  CHECK(biased.scores_TK.item<float>() == 0.5f);
}

TEST_CASE("runs of rows meet their own matrices, runs of no row and rows past the last run too") {
  const auto dtype = GENERATE(at::kFloat, at::kBFloat16, at::kDouble);
  const Tensor ends = ends_of({3, 0, 5, 1, 0});  // of 11 rows
  Tensor x = at::randn({11, 6}, dtype), w = at::randn({5, 4, 6}, dtype);
  x.requires_grad_(true), w.requires_grad_(true);
  const Tensor ours = grouped_linear(x, w, ends);
  const auto product = [&](std::int64_t begin, std::int64_t count, std::int64_t e) {
    return at::matmul(x.narrow(0, begin, count), w[e].t());
  };
  const Tensor expected =
      at::cat({product(0, 3, 0), product(3, 5, 2), product(8, 1, 3), at::zeros({2, 4}, dtype)});
  const double tolerance = dtype == at::kBFloat16 ? 2e-2 : 1e-5;
  CHECK(at::allclose(ours, expected, tolerance, tolerance));
  const Tensor weight = at::randn({11, 4}, dtype);
  const Tensors ours_grad = torch::autograd::grad({(ours * weight).sum()}, {x, w});
  const Tensors expected_grad = torch::autograd::grad({(expected * weight).sum()}, {x, w});
  for (std::size_t i = 0; i < 2; ++i)
    CHECK(at::allclose(ours_grad[i], expected_grad[i], tolerance, tolerance));
}

TEST_CASE("attention takes values of another width than queries and keys, forward and backward") {
  const std::int64_t qk = GENERATE(12, 8), v_width = GENERATE(8, 12, 20);
  const bool documents = GENERATE(false, true);
  constexpr std::int64_t kTime = 17;
  const auto heads = [](std::int64_t count, std::int64_t width) {
    return at::randn({2, kTime, count, width}).transpose(1, 2);
  };
  Tensor q = heads(4, qk), k = heads(2, qk), v = heads(2, v_width);
  for (Tensor* t : {&q, &k, &v}) t->requires_grad_(true);
  const Tensor allowed = at::tril(at::ones({kTime, kTime}, at::kBool));
  const Tensor scores = (at::matmul(q, k.repeat_interleave(2, 1).transpose(-2, -1)) * 0.3)
                            .masked_fill(allowed.logical_not(), -std::numeric_limits<double>::infinity());
  const Tensor plain = at::matmul(at::softmax(scores, -1), v.repeat_interleave(2, 1));
  std::vector<std::int32_t> borders(2 * kTime + 1, 2 * kTime);
  borders[0] = 0, borders[1] = kTime;
  const auto at_borders = documents ? std::optional<Tensor>(at::tensor(borders, at::kInt)) : std::nullopt;
  const Tensor ours = attention({q, k, v, at_borders, 0.3});
  REQUIRE(ours.sizes() == at::IntArrayRef({2, 4, kTime, v_width}));
  CHECK(ours.transpose(1, 2).is_contiguous());
  CHECK(at::allclose(ours, plain, 1e-4, 1e-5));
  const Tensor weight = at::randn(ours.sizes());
  const Tensors ours_grad = torch::autograd::grad({(ours * weight).sum()}, {q, k, v});
  const Tensors plain_grad = torch::autograd::grad({(plain * weight).sum()}, {q, k, v});
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(at::allclose(ours_grad[i], plain_grad[i], 1e-3, 1e-4));
    CHECK(ours_grad[i].transpose(1, 2).is_contiguous());
  }
}

TEST_CASE("sizes of DeepSeek-V3 that cannot be are refused with the arithmetic") {
  const auto rule = [](auto change) {
    DeepSeekV3Config c;
    change(c);
    const auto problems = c.problems();
    REQUIRE(problems.size() == 1);
    return problems[0].rule;
  };
  CHECK(rule([](auto& c) { c.qk_rope_head_dim = 63; }) ==
        "model.qk_rope_head_dim must be even: rotary embedding turns pairs");
  CHECK(rule([](auto& c) { c.n_dense_layers = 7; }) ==
        "model.n_dense_layers must be at most model.n_layers = 6");
  CHECK(rule([](auto& c) { c.n_expert_groups = 3; }) ==
        "model.n_expert_groups must divide model.n_experts, and 8 = 3 * 2 + 2");
  CHECK(rule([](auto& c) { c.n_expert_groups = 2, c.n_limited_groups = 3; }) ==
        "model.n_limited_groups must be at most model.n_expert_groups = 2");
  CHECK(rule([](auto& c) { c.n_expert_groups = 8, c.n_limited_groups = 8; }) ==
        "a group must have 2 experts or more, since its two best scores count, and 8 / 8 = 1");
  CHECK(
      rule([](auto& c) { c.n_expert_groups = 4; }) ==
      "model.top_k must be at most the 2 experts that a token may choose from: n_limited_groups * n_experts "
      "/ n_expert_groups = 1 * 2");
  CHECK(rule([](auto& c) { c.rope_beta_slow = 33; }) ==
        "model.rope_beta_slow = 33 must be at most model.rope_beta_fast = 32");
  for (const char* name : {"debugmodel", "16B", "236B", "671B", "kimi_k2_debugmodel", "kimi_k2_1T"})
    CHECK(flavor(name).problems().empty());
}

}  // namespace rondo
