// Attention's CUDA kernels on the host (tests/cuda/host/cuda_runtime_api.h) against the CPU's.
#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <random>

#include "ops/attention/attention_cuda.h"
#include "tests/cuda/element_of.h"
#include "tests/cuda/int_tensors.h"
#include "tests/ops/call_op.h"

namespace rondo {
namespace {

using at::Tensor;
using cuda::Element;

// Consecutive documents of these lengths in rows of `tokens`; the tail repeats the last border.
Tensor borders_of(const std::vector<std::int32_t>& lengths, std::int64_t all) {
  std::vector<std::int32_t> borders{0};
  for (const std::int32_t length : lengths) borders.push_back(borders.back() + length);
  REQUIRE(borders.back() == all);
  borders.resize(static_cast<std::size_t>(all) + 1, borders.back());
  return ints(borders);
}

cuda::Heads heads_of(const Tensor& x) {
  return {const_cast<void*>(x.const_data_ptr()), x.stride(0), x.stride(1), x.stride(2)};
}

Tensor heads(std::int64_t rows, std::int64_t count, std::int64_t tokens, std::int64_t width,
             at::ScalarType type) {
  return at::randn({rows, tokens, count, width}).to(type).transpose(1, 2);
}

struct Sample {
  Tensor q, k, v, grad, output, logsumexp, grad_q, grad_k, grad_v;
};
using Borders = std::optional<Tensor>;

// Positions of queries and keys that are not in order.
struct Positions {
  Borders queries, keys;
};

Sample computed_on_cpu(std::int64_t rows, std::int64_t tokens, std::int64_t count, std::int64_t groups,
                       std::int64_t width, std::int64_t value_width, at::ScalarType type,
                       const Borders& borders, double scale, const AttentionMask& mask = {},
                       const Positions& positions = {}) {
  const std::int64_t queries = positions.queries ? positions.queries->size(1) : tokens;
  const Borders no_sinks;
  Sample s;
  s.q = heads(rows, count, queries, width, type);
  s.k = heads(rows, groups, tokens, width, type);
  s.v = heads(rows, groups, tokens, value_width, type);
  s.grad = heads(rows, count, queries, value_width, type);
  const std::vector<Tensor> out = call("attention", s.q, s.k, s.v, borders, scale, mask.left, mask.right,
                                       mask.chunk, no_sinks, positions.queries, positions.keys);
  const std::vector<Tensor> gradients =
      call("attention_backward", s.grad, s.q, s.k, s.v, out[0], out[1], borders, scale, mask.left, mask.right,
           mask.chunk, positions.queries, positions.keys);
  s.output = out[0], s.logsumexp = out[1];
  s.grad_q = gradients[0], s.grad_k = gradients[1], s.grad_v = gradients[2];
  return s;
}

bool close(const Tensor& a, const Tensor& b, at::ScalarType type) {
  const double tolerance = type == at::kBFloat16 ? 3e-2 : 2e-5;
  return at::allclose(a.to(at::kDouble), b.to(at::kDouble), tolerance, tolerance);
}

}  // namespace

TEST_CASE(
    "direct attention equals the CPU's, with and without documents, windows, groups and narrower values, and "
    "with some queries and permuted keys") {
  const at::ScalarType type = GENERATE(at::kFloat, at::kBFloat16, at::kDouble);
  const bool documents = GENERATE(false, true);
  const AttentionMask mask =
      GENERATE(AttentionMask{}, AttentionMask{.left = 2}, AttentionMask{.left = 1, .right = 2},
               AttentionMask{.right = AttentionMask::kUnlimited});
  const std::int64_t value_width = GENERATE(24, 16), width = 24, rows = 2, tokens = 8, count = 4, groups = 2;
  const bool has_positions = GENERATE(false, true);
  const double scale = 0.3;
  const Borders borders = documents ? Borders(borders_of({1, 4, 3, 2, 6}, rows * tokens)) : std::nullopt;
  Positions positions;
  if (has_positions) {
    positions.queries = at::tensor({6, 0, 3, 2, 7, 1, 4, 5, 7, 0}, at::kInt).view({rows, 5});
    positions.keys =
        at::tensor({4, 5, 0, 1, 7, 6, 2, 3, 0, 2, 4, 6, 1, 3, 5, 7}, at::kInt).view({rows, tokens});
  }
  const Sample s =
      computed_on_cpu(rows, tokens, count, groups, width, value_width, type, borders, scale, mask, positions);
  const std::int64_t queries = s.q.size(2);

  const cuda::DirectShape shape{element_of(s.q), rows,        queries, tokens, count, groups,
                                width,           value_width, scale,   0,      mask};
  const Tensor query_at = at::empty({rows * tokens}, at::kInt), key_at = at::empty_like(query_at);
  cuda::Places places;
  if (has_positions) {
    const auto stand = [&](const Tensor& of, const Tensor& at) {
      cuda::who_stands_where(data(of), rows, of.size(1), tokens, at.mutable_data_ptr<std::int32_t>(),
                             nullptr);
    };
    stand(*positions.queries, query_at);
    stand(*positions.keys, key_at);
    places = {data(*positions.queries), data(*positions.keys), data(query_at), data(key_at)};
  }
  const Tensor spans = at::empty({rows * tokens, 2}, at::kInt);
  auto* const spans_data = spans.mutable_data_ptr<std::int32_t>();
  cuda::document_spans(borders ? data(*borders) : nullptr, borders ? borders->numel() : 0, rows, tokens,
                       spans_data, nullptr);
  const Tensor output = heads(rows, count, queries, value_width, type),
               scores = at::empty({rows, count, queries}, s.logsumexp.options());
  cuda::direct_forward(shape, spans_data, places, heads_of(s.q), heads_of(s.k), heads_of(s.v),
                       heads_of(output), scores.mutable_data_ptr(), nullptr);
  CHECK(close(output, s.output, type));
  CHECK(close(scores, s.logsumexp, at::kFloat));

  const Tensor grad_q = heads(rows, count, queries, width, type),
               grad_k = heads(rows, groups, tokens, width, type),
               grad_v = heads(rows, groups, tokens, value_width, type), products = at::empty_like(scores);
  cuda::direct_backward(shape, spans_data, places, heads_of(s.grad), heads_of(s.q), heads_of(s.k),
                        heads_of(s.v), heads_of(s.output), scores.const_data_ptr(), heads_of(grad_q),
                        heads_of(grad_k), heads_of(grad_v), products.mutable_data_ptr(), nullptr);
  CHECK(close(grad_q, s.grad_q, type));
  CHECK(close(grad_k, s.grad_k, type));
  CHECK(close(grad_v, s.grad_v, type));
}

TEST_CASE("sinks added on a device equal those of the CPU's attention") {
  const at::ScalarType type = GENERATE(at::kFloat, at::kBFloat16, at::kDouble);
  const std::int64_t rows = 2, tokens = 5, count = 3, width = 40;
  const Tensor q = heads(rows, count, tokens, width, type), k = heads(rows, count, tokens, width, type),
               v = heads(rows, count, tokens, width, type), sinks = at::randn({count}).to(type) * 3;
  const auto no = std::optional<Tensor>();
  const std::int64_t unlimited = AttentionMask::kUnlimited, none = 0;
  const std::vector<Tensor> without = call("attention", q, k, v, no, 0.3),
                            with = call("attention", q, k, v, no, 0.3, unlimited, none, none,
                                        std::optional<Tensor>(sinks));
  cuda::add_sinks(element_of(q), rows * tokens * count, tokens, count, width, sinks.const_data_ptr(),
                  without[0].mutable_data_ptr(), without[1].mutable_data_ptr(), nullptr);
  CHECK(close(without[0], with[0], type));
  CHECK(close(without[1], with[1], at::kFloat));
}

TEST_CASE("chunks begin and end with their document") {
  const std::int64_t rows = 2, tokens = 11, all = rows * tokens;
  const Tensor borders = borders_of({1, 7, 3, 11}, all), spans = at::empty({all, 2}, at::kInt),
               pieces = at::full({all + 1}, -1, at::kInt);
  auto* const spans_data = spans.mutable_data_ptr<std::int32_t>();
  cuda::document_spans(data(borders), borders.numel(), rows, tokens, spans_data, nullptr);
  cuda::cut_documents(spans_data, all, 3, pieces.mutable_data_ptr<std::int32_t>(), nullptr);
  CHECK(at::equal(pieces, borders_of({1, 3, 3, 1, 3, 3, 3, 3, 2}, all)));
}

TEST_CASE("a run of queries has sequences that end with it, and the keys after it have no queries") {
  const std::int64_t rows = 2, keys = 12, queries = 6;
  const Tensor positions = at::tensor({0, 1, 2, 9, 10, 11, 3, 4, 5, 6, 7, 8}, at::kInt).view({rows, queries});
  const auto borders_of_run = [&](const Borders& borders, std::int64_t first) {
    const std::int64_t count = borders ? borders->numel() : rows + 1;
    const Tensor of_queries = at::full({count + rows}, -1, at::kInt), of_keys = at::full_like(of_queries, -1);
    cuda::sequences_of_run(borders ? data(*borders) : nullptr, count, rows, keys,
                           {first, 3, queries, data(positions)}, of_queries.mutable_data_ptr<std::int32_t>(),
                           of_keys.mutable_data_ptr<std::int32_t>(), nullptr);
    return std::pair(of_queries, of_keys);
  };
  const auto is = [](const Tensor& made, const std::vector<int>& wanted) {
    return at::equal(made, at::tensor(wanted, at::kInt));
  };
  const auto [head_queries, head_keys] = borders_of_run({}, 0);  // [0, 3) and [3, 6)
  CHECK(is(head_queries, {0, 3, 3, 6, 6}));
  CHECK(is(head_keys, {0, 3, 12, 18, 24}));
  const auto [tail_queries, tail_keys] = borders_of_run({}, 3);  // [9, 12) and [6, 9)
  CHECK(is(tail_queries, {0, 3, 3, 6, 6}));
  CHECK(is(tail_keys, {0, 12, 12, 21, 24}));
  // Documents [0, 2), [2, 10), [10, 12) and [12, 19), [19, 24).
  const Borders documents = borders_of({2, 8, 2, 7, 5}, 24).narrow(0, 0, 7);
  const auto [some_queries, some_keys] = borders_of_run(documents, 3);
  CHECK(is(some_queries, {0, 0, 1, 3, 3, 4, 6, 6, 6}));
  CHECK(is(some_keys, {0, 2, 10, 12, 12, 19, 21, 24, 24}));
}

TEST_CASE("direct attention for short documents keeps the results of long ones") {
  const std::int64_t tokens = 16;
  const Borders borders = borders_of({3, 9, 4}, tokens);
  const Sample s = computed_on_cpu(1, tokens, 1, 1, 8, 8, at::kFloat, borders, 0.5);
  const cuda::DirectShape shape{Element::f32, 1, tokens, tokens, 1, 1, 8, 8, 0.5, 5, {}};
  const Tensor spans = at::empty({tokens, 2}, at::kInt),
               output = at::full({1, tokens, 1, 8}, 9.0f).transpose(1, 2);
  const Tensor scores = at::full({1, tokens, 1}, 9.0f);
  auto* const spans_data = spans.mutable_data_ptr<std::int32_t>();
  cuda::document_spans(data(*borders), borders->numel(), 1, tokens, spans_data, nullptr);
  cuda::direct_forward(shape, spans_data, {}, heads_of(s.q), heads_of(s.k), heads_of(s.v), heads_of(output),
                       scores.mutable_data_ptr(), nullptr);
  const auto part = [](const Tensor& x, std::int64_t begin, std::int64_t length) {
    return x.narrow(2, begin, length);
  };
  CHECK(close(part(output, 0, 3), part(s.output, 0, 3), at::kFloat));
  CHECK(close(part(output, 12, 4), part(s.output, 12, 4), at::kFloat));
  CHECK(at::equal(part(output, 3, 9), at::full({1, 1, 9, 8}, 9.0f)));
  CHECK(at::equal(scores.narrow(1, 3, 9), at::full({1, 9, 1}, 9.0f)));
}

TEST_CASE("sequences for flash have one long document each, begin with each row, and have room") {
  std::mt19937 random(11);
  for (int round = 0; round < 8; ++round) {
    const std::int64_t rows = 1 + random() % 3, tokens = 1 + random() % 60, all = rows * tokens;
    const std::int64_t shorter_than = 1 + random() % 12;
    const std::uint32_t longest = 1 + random() % 30;
    std::vector<std::int32_t> lengths;
    for (std::int64_t row = 0; row < rows; ++row)
      for (std::int64_t left = tokens; left > 0; left -= lengths.back())
        lengths.push_back(static_cast<std::int32_t>(std::min<std::int64_t>(left, 1 + random() % longest)));
    const Tensor borders = borders_of(lengths, all);
    const std::int64_t room = cuda::most_sequences(rows, tokens, shorter_than);
    const Tensor sequences = at::full({room + 1}, -1, at::kInt);
    cuda::merge_short_documents(data(borders), borders.numel(), rows, tokens, shorter_than,
                                sequences.mutable_data_ptr<std::int32_t>(), room, nullptr);
    std::vector<std::int32_t> expected;
    std::int32_t begin = 0, before = 0;
    for (const std::int32_t length : lengths) {
      if (begin % tokens == 0 || length >= shorter_than || before >= shorter_than) expected.push_back(begin);
      begin += length;
      before = length;
    }
    REQUIRE(static_cast<std::int64_t>(expected.size()) <= room);
    expected.resize(static_cast<std::size_t>(room) + 1, static_cast<std::int32_t>(all));
    CHECK(at::equal(sequences, ints(expected)));
  }
}

TEST_CASE("sequences for cuDNN have lengths, and begins in tensors of each stride of tokens") {
  const Tensor borders = ints({0, 3, 300, 300, 1024, 1024}), lengths = at::full({5}, -1, at::kInt),
               begins = at::full({2, 6}, -1, at::kLong);
  cuda::ragged_sequences(data(borders), 5, {{8, 3'000'000}, 2}, lengths.mutable_data_ptr<std::int32_t>(),
                         begins.mutable_data_ptr<std::int64_t>(), nullptr);
  CHECK(at::equal(lengths, ints({3, 297, 0, 724, 0})));
  CHECK(at::equal(begins[0], borders.to(at::kLong) * 8));
  CHECK(at::equal(begins[1], borders.to(at::kLong) * 3'000'000));
}

}  // namespace rondo
