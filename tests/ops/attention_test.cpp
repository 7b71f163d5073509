// rondo::attention by its autograd, whose gradients come from three ops, and attended_pairs against
// a count.
#include "ops/attention/attention.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/randn_like.h>
#include <ATen/ops/randperm.h>
#include <ATen/ops/tensor.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <vector>

#include "tests/ops/dense_attention.h"

namespace rondo {
namespace {

using at::Tensor;

// Relative to the largest element, or to 1 if all are smaller.
double largest_difference(const Tensor& ours, const Tensor& expected) {
  return (ours - expected).abs().max().item<double>() / std::max(expected.abs().max().item<double>(), 1.0);
}

// An independent definition of visible_keys, for a row that is one document.
bool sees(const AttentionMask& mask, std::int64_t query, std::int64_t key) {
  if (mask.left >= 0 && query - key > mask.left) return false;
  if (mask.right >= 0 && key - query > mask.right) return false;
  return mask.chunk == 0 || query / mask.chunk == key / mask.chunk;
}

}  // namespace

TEST_CASE("attention's autograd gives the gradients of queries, keys, values and sinks, with all options") {
  const AttentionMask mask =
      GENERATE(AttentionMask{}, AttentionMask{.left = 3}, AttentionMask{.left = 2, .right = 1, .chunk = 5});
  const bool documents = GENERATE(false, true), has_sinks = GENERATE(false, true),
             moved = GENERATE(false, true);
  constexpr std::int64_t kRows = 2, kTokens = 19;
  const std::int64_t queries = moved ? 8 : kTokens;
  const auto heads = [](std::int64_t count, std::int64_t tokens, std::int64_t width) {
    return at::randn({kRows, tokens, count, width}, at::kDouble).transpose(1, 2).requires_grad_(true);
  };
  AttentionOperands in{.q = heads(4, queries, 6), .k = heads(2, kTokens, 6), .v = heads(2, kTokens, 10)};
  in.scale = 0.7, in.mask = mask;
  if (documents) {
    std::vector<std::int32_t> borders{0, 1, 8, kTokens};
    borders.resize(kRows * kTokens + 1, kRows * kTokens);
    in.document_borders = at::tensor(borders, at::kInt);
  }
  if (has_sinks) in.sinks = at::randn({4}, at::kDouble).requires_grad_(true);
  if (moved) {
    const auto order = [] { return at::randperm(kTokens, at::kInt).view({1, -1}); };
    in.key_positions = at::cat({order(), order()});
    in.query_positions = at::cat({order(), order()}).narrow(1, 0, queries).contiguous();
  }
  const Tensor output = attention(in), grad = at::randn_like(output);
  const DenseAttention expected = dense_attention(in, grad);
  CHECK(largest_difference(output, expected.output) < 1e-12);
  std::vector<Tensor> inputs{in.q, in.k, in.v}, of_dense{expected.grad_q, expected.grad_k, expected.grad_v};
  if (has_sinks) inputs.push_back(*in.sinks), of_dense.push_back(expected.grad_sinks);
  const auto gradients = torch::autograd::grad({output}, inputs, {grad});
  for (std::size_t i = 0; i < inputs.size(); ++i)
    CHECK(largest_difference(gradients[i], of_dense[i]) < 1e-12);
}

TEST_CASE("attended_pairs equals a count of the pairs") {
  for (const std::int64_t tokens : {1, 2, 7, 12, 13})
    for (const std::int64_t left : {-1, 0, 1, 5, 40})
      for (const std::int64_t right : {-1, 0, 3, 40})
        for (const std::int64_t chunk : {0, 1, 4, 12, 40}) {
          const AttentionMask mask{left, right, chunk};
          std::int64_t counted = 0;
          for (std::int64_t query = 0; query < tokens; ++query)
            for (std::int64_t key = 0; key < tokens; ++key) counted += sees(mask, query, key);
          INFO(tokens << " tokens, " << left << ", " << right << ", " << chunk);
          CHECK(attended_pairs(mask, tokens) == static_cast<double>(counted));
        }
}

}  // namespace rondo
