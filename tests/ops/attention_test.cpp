// rondo::attention by its autograd: every term of a mask, documents, sinks and positions against the formula
// in f64 with all scores in memory, and counts of pairs against counting them.
#include "ops/attention/attention.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/randn_like.h>
#include <ATen/ops/randperm.h>
#include <ATen/ops/tensor.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <limits>
#include <vector>

namespace rondo {
namespace {

using at::Tensor;

constexpr std::int64_t kRows = 2, kHeads = 4, kTokens = 19;

// Row 0: documents of 1, 7 and 11 tokens; row 1: one document.
Tensor some_documents() {
  std::vector<std::int32_t> borders{0, 1, 8, kTokens};
  borders.resize(kRows * kTokens + 1, kRows * kTokens);
  return at::tensor(borders, at::kInt);
}
Span document_at(bool documents, std::int64_t row, std::int64_t position) {
  if (!documents || row == 1) return {0, kTokens};
  return position < 1 ? Span{0, 1} : position < 8 ? Span{1, 8} : Span{8, kTokens};
}

// Said in other words than visible_keys does: a query and a key at two positions of a row.
bool sees(const AttentionMask& mask, Span document, std::int64_t query, std::int64_t key) {
  if (key < document.first || key >= document.end) return false;
  if (mask.left >= 0 && query - key > mask.left) return false;
  if (mask.right >= 0 && key - query > mask.right) return false;
  return mask.chunk == 0 || (query - document.first) / mask.chunk == (key - document.first) / mask.chunk;
}

struct Case {
  AttentionOperands operands;
  bool documents;
};

Tensor formula(const Case& c) {
  const AttentionOperands& in = c.operands;
  const auto repeated = [](const Tensor& x) { return x.repeat_interleave(kHeads / x.size(1), 1); };
  Tensor hidden = at::ones({kRows, 1, in.q.size(2), in.k.size(2)}, at::kBool);
  const auto at = [](const std::optional<Tensor>& positions, std::int64_t row, std::int64_t i) {
    return positions ? (*positions)[row][i].item<std::int64_t>() : i;
  };
  for (std::int64_t row = 0; row < kRows; ++row)
    for (std::int64_t t = 0; t < in.q.size(2); ++t)
      for (std::int64_t s = 0; s < in.k.size(2); ++s) {
        const std::int64_t query = at(in.query_positions, row, t);
        hidden[row][0][t][s] =
            !sees(in.mask, document_at(c.documents, row, query), query, at(in.key_positions, row, s));
      }
  const Tensor scores = (at::matmul(in.q, repeated(in.k).transpose(-2, -1)) * in.scale)
                            .masked_fill(hidden, -std::numeric_limits<double>::infinity());
  const Tensor sinks = in.sinks ? *in.sinks : at::full({kHeads}, -1e300, in.q.options());
  const Tensor all = at::cat({scores, sinks.view({1, -1, 1, 1}).expand({kRows, -1, in.q.size(2), 1})}, -1);
  return at::matmul((scores - at::logsumexp(all, {-1}, true)).exp(), repeated(in.v));
}

// As a part of the largest element, or of 1 where all are smaller.
double largest_difference(const Tensor& ours, const Tensor& expected) {
  return (ours - expected).abs().max().item<double>() / std::max(expected.abs().max().item<double>(), 1.0);
}

}  // namespace

TEST_CASE("attention and all its gradients are the formula's, for every term of a mask and all together") {
  const AttentionMask mask =
      GENERATE(AttentionMask{}, AttentionMask{.left = 3}, AttentionMask{.left = 0}, AttentionMask{.chunk = 5},
               AttentionMask{.left = 2, .chunk = 4}, AttentionMask{.right = AttentionMask::kUnlimited},
               AttentionMask{.left = 1, .right = 2},
               AttentionMask{.left = 2, .right = AttentionMask::kUnlimited, .chunk = 7});
  for (const bool documents : {false, true})
    for (const bool has_sinks : {false, true})
      for (const bool moved : {false, true}) {
        INFO("left " << mask.left << ", right " << mask.right << ", chunk " << mask.chunk << ", documents "
                     << documents << ", sinks " << has_sinks << ", positions " << moved);
        const std::int64_t queries = moved ? 8 : kTokens;
        const auto heads = [](std::int64_t count, std::int64_t tokens, std::int64_t width) {
          return at::randn({kRows, tokens, count, width}, at::kDouble).transpose(1, 2).requires_grad_(true);
        };
        Case c{{.q = heads(kHeads, queries, 6), .k = heads(2, kTokens, 6), .v = heads(2, kTokens, 10)},
               documents};
        c.operands.scale = 0.7, c.operands.mask = mask;
        if (documents) c.operands.document_borders = some_documents();
        if (has_sinks) c.operands.sinks = at::randn({kHeads}, at::kDouble).requires_grad_(true);
        if (moved) {
          const auto order = [] { return at::randperm(kTokens, at::kInt).view({1, -1}); };
          c.operands.key_positions = at::cat({order(), order()});
          c.operands.query_positions = at::cat({order(), order()}).narrow(1, 0, queries).contiguous();
        }
        const Tensor ours = attention(c.operands), expected = formula(c);
        CHECK(largest_difference(ours, expected) < 1e-12);
        std::vector<Tensor> inputs{c.operands.q, c.operands.k, c.operands.v};
        if (has_sinks) inputs.push_back(*c.operands.sinks);
        const Tensor grad = at::randn_like(expected);
        const auto gradients = torch::autograd::grad({ours}, inputs, {grad});
        const auto expected_gradients = torch::autograd::grad({expected}, inputs, {grad});
        for (std::size_t i = 0; i < inputs.size(); ++i)
          CHECK(largest_difference(gradients[i], expected_gradients[i]) < 1e-12);
      }
}

TEST_CASE("a token that sees no key has zero output and moves nothing, with a sink and without") {
  const bool has_sinks = GENERATE(false, true);
  const auto heads = [](std::int64_t tokens) {
    return at::randn({1, tokens, 2, 4}, at::kDouble).transpose(1, 2).requires_grad_(true);
  };
  AttentionOperands in{.q = heads(3), .k = heads(2), .v = heads(2)};
  if (has_sinks) in.sinks = at::randn({2}, at::kDouble).requires_grad_(true);
  in.key_positions = at::tensor({2, 1}, at::kInt).view({1, 2});  // nothing stands at 0
  const Tensor out = attention(in), grad = at::randn_like(out);
  CHECK(out.select(2, 0).abs().max().item<double>() == 0);
  CHECK(out.select(2, 1).abs().max().item<double>() > 0);
  std::vector<Tensor> inputs{in.q, in.k, in.v};
  if (has_sinks) inputs.push_back(*in.sinks);
  const auto gradients = torch::autograd::grad({out}, inputs, {grad});
  CHECK(gradients[0].select(2, 0).abs().max().item<double>() == 0);
  // As if it were not there.
  in.q = in.q.narrow(2, 1, 2), in.query_positions = at::tensor({1, 2}, at::kInt).view({1, 2});
  inputs[0] = in.q;
  const auto others = torch::autograd::grad({attention(in)}, inputs, {grad.narrow(2, 1, 2)});
  for (std::size_t i = 1; i < inputs.size(); ++i) CHECK(largest_difference(gradients[i], others[i]) < 1e-14);
}

TEST_CASE("the pairs of a mask are as many as one counts") {
  for (const std::int64_t tokens : {1, 2, 7, 12, 13})
    for (const std::int64_t left : {-1, 0, 1, 5, 40})
      for (const std::int64_t right : {-1, 0, 3, 40})
        for (const std::int64_t chunk : {0, 1, 4, 12, 40}) {
          const AttentionMask mask{left, right, chunk};
          std::int64_t counted = 0;
          for (std::int64_t query = 0; query < tokens; ++query)
            for (std::int64_t key = 0; key < tokens; ++key) counted += sees(mask, {0, tokens}, query, key);
          INFO(tokens << " tokens, " << left << ", " << right << ", " << chunk);
          CHECK(attended_pairs(mask, tokens) == static_cast<double>(counted));
        }
}

}  // namespace rondo
