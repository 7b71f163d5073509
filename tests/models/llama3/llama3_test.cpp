// Llama 3's costs against published figures, and its attention op against plain matrix products.
#include "models/llama3/llama3.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/tril.h>
#include <torch/csrc/autograd/autograd.h>

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cmath>
#include <limits>

#include "config/load.h"
#include "models/parts/decoder.h"
#include "ops/attention/attention.h"

namespace rondo {
namespace {

using at::Tensor;
using Tensors = std::vector<Tensor>;

struct Heads {
  Tensor q, k, v;
};
Heads random_heads(std::int64_t batch, std::int64_t heads, std::int64_t groups, std::int64_t time,
                   std::int64_t dim) {
  return {at::randn({batch, heads, time, dim}), at::randn({batch, groups, time, dim}),
          at::randn({batch, groups, time, dim})};
}

// softmax(q k^T / sqrt(K) + causal mask) v, with each key/value head repeated for its queries.
Tensor plain_attention(const Tensor& q, const Tensor& k, const Tensor& v) {
  const auto repeat = [&](const Tensor& x) { return x.repeat_interleave(q.size(1) / x.size(1), 1); };
  const std::int64_t time = q.size(2);
  const Tensor allowed = at::tril(at::ones({time, time}, at::kBool));
  Tensor scores = at::matmul(q, repeat(k).transpose(-2, -1)) / std::sqrt(static_cast<double>(q.size(3)));
  scores = scores.masked_fill(allowed.logical_not(), -std::numeric_limits<double>::infinity());
  return at::matmul(at::softmax(scores, -1), repeat(v));
}

Tensor attend(const Heads& h, const std::optional<Tensor>& borders = {}) {
  return attention({h.q, h.k, h.v, borders, 1.0 / std::sqrt(static_cast<double>(h.q.size(3)))});
}

Tensor borders_of(std::vector<std::int32_t> starts, std::int64_t tokens) {
  starts.resize(static_cast<std::size_t>(tokens) + 1, static_cast<std::int32_t>(tokens));
  return at::from_blob(starts.data(), {tokens + 1}, at::kInt).clone();
}

}  // namespace

TEST_CASE("attention and its gradients agree with plain matrix products, grouped and multi-query too") {
  const std::int64_t groups = GENERATE(6, 3, 1);
  Heads h = random_heads(2, 6, groups, 33, 16);
  for (Tensor* t : {&h.q, &h.k, &h.v}) t->requires_grad_(true);
  const Tensor weight = at::randn({2, 6, 33, 16});
  const Tensor ours = attend(h), plain = plain_attention(h.q, h.k, h.v);
  CHECK(at::allclose(ours, plain, 1e-4, 1e-5));
  const Tensors inputs{h.q, h.k, h.v};
  const Tensors ours_grad = torch::autograd::grad({(ours * weight).sum()}, inputs);
  const Tensors plain_grad = torch::autograd::grad({(plain * weight).sum()}, inputs);
  for (std::size_t i = 0; i < 3; ++i) CHECK(at::allclose(ours_grad[i], plain_grad[i], 1e-3, 1e-4));
}

TEST_CASE("with document borders each document attends to itself alone, forward and backward") {
  constexpr std::int64_t kTime = 24;
  Heads h = random_heads(2, 4, 2, kTime, 8);
  for (Tensor* t : {&h.q, &h.k, &h.v}) t->requires_grad_(true);
  // Row 0: documents of 10 and 14 tokens; row 1: one of 24.
  const Tensor borders = borders_of({0, 10, 24}, 2 * kTime);
  const auto part = [&](std::int64_t row, std::int64_t begin, std::int64_t length) {
    const auto cut = [&](const Tensor& x) { return x.narrow(0, row, 1).narrow(2, begin, length); };
    return plain_attention(cut(h.q), cut(h.k), cut(h.v));
  };
  const Tensor ours = attend(h, borders);
  const Tensor expected = at::cat({at::cat({part(0, 0, 10), part(0, 10, 14)}, 2), part(1, 0, 24)}, 0);
  CHECK(at::allclose(ours, expected, 1e-4, 1e-5));
  const Tensor weight = at::randn(ours.sizes());
  const Tensors inputs{h.q, h.k, h.v};
  const Tensors ours_grad = torch::autograd::grad({(ours * weight).sum()}, inputs);
  const Tensors plain_grad = torch::autograd::grad({(expected * weight).sum()}, inputs);
  for (std::size_t i = 0; i < 3; ++i) CHECK(at::allclose(ours_grad[i], plain_grad[i], 1e-3, 1e-4));
}

TEST_CASE("borders at row starts alone change no bit of the output") {
  const Heads h = random_heads(3, 4, 4, 16, 8);
  CHECK(at::allclose(attend(h), attend(h, borders_of({0, 16, 32}, 48)), 1e-6, 1e-7));
}

TEST_CASE("a token sees nothing that comes after it") {
  Heads h = random_heads(1, 2, 2, 12, 8);
  const Tensor before = attend(h);
  h.k.narrow(2, 7, 5).fill_(3.0);
  h.v.narrow(2, 7, 5).fill_(-2.0);
  CHECK(at::equal(before.narrow(2, 0, 7), attend(h).narrow(2, 0, 7)));
  CHECK_FALSE(at::equal(before.narrow(2, 7, 5), attend(h).narrow(2, 7, 5)));
}

TEST_CASE("parameters and FLOPs a token are the published ones") {
  struct Row {
    const char* flavor;
    std::int64_t parameters;
    double gflop_at_8192;
  };
  const Row row = GENERATE(Row{"1B", 1'235'814'400, 10.64}, Row{"3B", 3'212'749'824, 27.73},
                           Row{"8B", 8'030'261'248, 57.914}, Row{"70B", 70'553'706'496, 481.44},
                           Row{"405B", 405'853'388'800, 2625.4});
  const JobConfig job = load_config({"--model.flavor=" + std::string(row.flavor)});
  const Llama3Config config = from_values<Llama3Config>(job.model.sizes);
  const auto model = make_decoder(config);
  INFO(row.flavor);
  CHECK(parameter_count(*model) == row.parameters);
  CHECK(static_cast<double>(model->flops_per_token(8192)) * 1e-9 ==
        Catch::Approx(row.gflop_at_8192).epsilon(5e-4));
}

TEST_CASE("a window and chunks change the cost of attention by the pairs they leave, and nothing else") {
  Llama3Config config;
  const std::int64_t whole = make_decoder(config)->flops_per_token(100), attention = 12 * 6 * 256 * 100;
  config.sliding_window = 10;  // 10 * 11 / 2 + 90 * 10 pairs of 100 * 101 / 2
  CHECK(make_decoder(config)->flops_per_token(100) - (whole - attention) ==
        Catch::Approx(static_cast<double>(attention) * 955 / 5050));
  config.attention_chunk = 20;  // and of each chunk 10 * 11 / 2 + 10 * 10
  CHECK(make_decoder(config)->flops_per_token(100) - (whole - attention) ==
        Catch::Approx(static_cast<double>(attention) * 5 * 155 / 5050));
  CHECK(parameter_count(*make_decoder(config)) == parameter_count(*make_decoder(Llama3Config())));
}

TEST_CASE("heads of a width of their own change the attention's matrices and cost alone") {
  Llama3Config config;
  const std::int64_t before = parameter_count(*make_decoder(config)),
                     cost = make_decoder(config)->flops_per_token(100);
  config.head_dim = 24, config.n_kv_heads = 1;
  const auto model = make_decoder(config);
  const auto& table = model->parameters();
  CHECK(table[2].sizes == std::vector<std::int64_t>{16 * 24, 256});  // wq
  CHECK(table[3].sizes == std::vector<std::int64_t>{24, 256});       // wk
  CHECK(table[5].sizes == std::vector<std::int64_t>{256, 16 * 24});  // wo
  const std::int64_t more = 6 * (2 * 256 * (16 * 24 - 256) + 2 * 256 * (24 - 256));
  CHECK(parameter_count(*model) - before == more);
  CHECK(model->flops_per_token(100) - cost == 6 * more + 12 * 6 * (16 * 24 - 256) * 100);
  CHECK(model->buffers(5)[0].value.sizes() == at::IntArrayRef({5, 12}));
}

TEST_CASE("llama-3.1 frequency scaling keeps short wavelengths and divides long ones by the factor") {
  Llama3Config scaled, plain;
  plain.rope_scaling_factor = 1.0;
  const auto first_row = [](const Llama3Config& config) {
    return make_decoder(config)->buffers(2)[1].value[1].clone();
  };  // sin at t = 1
  const Tensor a = first_row(scaled), b = first_row(plain);
  CHECK(a[0].item<float>() == b[0].item<float>());  // wavelength 2 pi
  const std::int64_t last = a.size(0) - 1;          // wavelength above the original length
  CHECK(std::asin(a[last].item<double>()) ==
        Catch::Approx(std::asin(b[last].item<double>()) / 8.0).epsilon(1e-4));
}

}  // namespace rondo
