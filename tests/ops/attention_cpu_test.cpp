// Attention's CPU kernels against dense attention in f64: every set of vector instructions of this
// machine, every dtype, every mask. Also that bits depend only on a query's own keys.
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/native/CPUBlas.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/randperm.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cmath>
#include <limits>
#include <random>
#include <sstream>

#include "ops/attention/attention_tiles.h"
#include "tests/ops/dense_attention.h"
#include "tests/ops/op_case.h"

namespace rondo {
namespace {

using at::Tensor;
using attention_tiles::Tiles;

struct Case {
  std::int64_t batch = 1, groups = 1, group_heads = 1, keys = 1, width = 8, value_width = 8;
  AttentionMask mask = {};
  std::int64_t document = 0;  // mean length; 0: no documents
  bool sinks = false;
  std::int64_t key_block = 0;  // keys are stored in permuted blocks of this size; 0: in order
  bool gaps = false;           // no key has an odd position; without documents
  std::int64_t queries = 0;    // number of queries, at any positions of the row; 0: all
};

std::string words(const Case& c) {
  std::ostringstream text;
  text << "B " << c.batch << ", G " << c.groups << ", H/G " << c.group_heads << ", S " << c.keys << ", D "
       << c.width << ", V " << c.value_width << ", left " << c.mask.left << ", right " << c.mask.right
       << ", chunk " << c.mask.chunk << ", document " << c.document << ", sinks " << c.sinks << ", key_block "
       << c.key_block << ", queries " << c.queries;
  return text.str();
}

Tensor heads(std::int64_t batch, std::int64_t count, std::int64_t time, std::int64_t width) {
  return at::randn({batch, time, count, width}).transpose(1, 2);
}

Tensor random_borders(const Case& c, std::mt19937& random) {
  std::vector<std::int32_t> borders;
  for (std::int64_t row = 0; row < c.batch; ++row)
    for (std::int64_t at = 0; at < c.keys;
         at += std::uniform_int_distribution<std::int64_t>(1, 2 * c.document - 1)(random))
      borders.push_back(static_cast<std::int32_t>(row * c.keys + at));
  borders.resize(static_cast<std::size_t>(c.batch * c.keys + 1), static_cast<std::int32_t>(c.batch * c.keys));
  return at::tensor(borders, at::kInt);
}

// Positions of keys in permuted blocks; a block in the middle may be shorter.
Tensor permuted_blocks(std::int64_t keys, std::int64_t block, std::mt19937& random) {
  std::vector<std::int32_t> begins, positions;
  for (std::int64_t at = 0; at < keys; at += block) begins.push_back(static_cast<std::int32_t>(at));
  std::shuffle(begins.begin(), begins.end(), random);
  for (const std::int32_t begin : begins)
    for (std::int32_t at = begin; at < std::min(begin + block, keys); ++at) positions.push_back(at);
  return at::tensor(positions, at::kInt);
}

AttentionOperands operands_of(const Case& c, unsigned seed) {
  std::mt19937 random(seed);
  at::manual_seed(seed);
  const std::int64_t heads_of_all = c.groups * c.group_heads, queries = c.queries > 0 ? c.queries : c.keys;
  AttentionOperands operands;
  operands.q = heads(c.batch, heads_of_all, queries, c.width);
  operands.k = heads(c.batch, c.groups, c.keys, c.width);
  operands.v = heads(c.batch, c.groups, c.keys, c.value_width);
  operands.mask = c.mask;
  operands.scale = 1.5 / std::sqrt(static_cast<double>(c.width));
  if (c.sinks) operands.sinks = at::randn({heads_of_all});
  if (c.document > 0) operands.document_borders = random_borders(c, random);
  std::vector<Tensor> key_rows, query_rows;
  for (std::int64_t row = 0; row < c.batch; ++row) {
    if (c.key_block > 0) key_rows.push_back(permuted_blocks(c.keys, c.key_block, random));
    if (c.queries > 0) query_rows.push_back(at::randperm(c.keys, at::kInt).narrow(0, 0, c.queries));
  }
  if (c.key_block > 0) operands.key_positions = at::stack(key_rows) * (c.gaps ? 2 : 1);
  if (c.queries > 0) operands.query_positions = at::stack(query_rows);
  return operands;
}

AttentionOperands in_dtype(AttentionOperands operands, at::ScalarType dtype) {
  for (Tensor* const x : {&operands.q, &operands.k, &operands.v}) *x = x->to(dtype);
  if (operands.sinks) operands.sinks = operands.sinks->to(dtype);
  return operands;
}

struct Results {
  Tensor output, logsumexp, grad_q, grad_k, grad_v;
  std::vector<Tensor> all() const { return {output, logsumexp, grad_q, grad_k, grad_v}; }
};

Results run(const AttentionOperands& operands, const Tensor& grad, const Tiles* tiles = nullptr) {
  Results r;
  std::tie(r.output, r.logsumexp) = attention_forward_cpu(operands, tiles);
  std::tie(r.grad_q, r.grad_k, r.grad_v) =
      attention_backward_cpu(operands, grad, r.output, r.logsumexp, tiles);
  return r;
}

Tensor grad_of(const AttentionOperands& operands) {
  return heads(operands.q.size(0), operands.q.size(1), operands.q.size(2), operands.v.size(3))
      .to(operands.q.scalar_type());
}

// Bounds the error of an element relative to the largest element. Weights, outputs and gradients of
// scores are rounded to bf16, each to 2^-9 of itself; f32 has an error of some units in the last
// place of sums.
void check_near(const char* name, const Tensor& made, const Tensor& expected, at::ScalarType dtype) {
  INFO(name);
  REQUIRE(made.sizes() == expected.sizes());
  if (made.numel() == 0) return;
  const Tensor infinite = expected.isinf(), x = made.to(at::kDouble);
  CHECK(at::equal(x.masked_select(infinite), expected.masked_select(infinite)));
  const Tensor error = (x - expected).masked_fill(infinite, 0).abs().max();
  const double largest = expected.masked_fill(infinite, 0).abs().max().item<double>();
  const double tolerance = dtype == at::kDouble ? 1e-13 : dtype == at::kFloat ? 4e-6 : 1.0 / 64;
  CHECK(error.item<double>() <= tolerance * (largest + 1));
}

void check_dense(const Case& c, unsigned seed) {
  INFO(words(c) << ", seed " << seed);
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kDouble}) {
    const AttentionOperands operands = in_dtype(operands_of(c, seed), dtype);
    const Tensor grad = grad_of(operands);
    const DenseAttention dense = dense_attention(operands, grad);
    for (const Tiles* const tiles : supported_attention_tiles()) {
      INFO(dtype << ", tiles " << tiles->name);
      const Results made = run(operands, grad, tiles);
      check_near("output", made.output, dense.output, dtype);
      check_near("logsumexp", made.logsumexp, dense.logsumexp, dtype == at::kBFloat16 ? at::kFloat : dtype);
      check_near("grad_q", made.grad_q, dense.grad_q, dtype);
      check_near("grad_k", made.grad_k, dense.grad_k, dtype);
      check_near("grad_v", made.grad_v, dense.grad_v, dtype);
      if (!operands.sinks || dtype == at::kBFloat16) continue;
      const Tensor mean = at::sum(grad.to(at::kDouble) * made.output, at::IntArrayRef{3});
      const Tensor weight = at::exp(operands.sinks->to(at::kDouble).view({1, -1, 1}) - made.logsumexp);
      check_near("grad_sinks", at::sum(weight * mean, at::IntArrayRef{0, 2}).neg(), dense.grad_sinks, dtype);
    }
  }
}

// Sizes grow with the seed, so the first failure is small.
Case random_case(unsigned seed) {
  std::mt19937 random(seed);
  const auto up_to = [&](std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, std::max(least, most))(random);
  };
  const std::int64_t size = 1 + seed;
  Case c;
  c.batch = up_to(1, std::min<std::int64_t>(3, size)), c.groups = up_to(1, std::min<std::int64_t>(3, size));
  c.group_heads = up_to(1, 3);
  c.keys = up_to(1, 6 * size), c.width = up_to(1, size), c.value_width = up_to(1, size);
  if (up_to(0, 1) == 1) c.mask.left = up_to(0, c.keys / 2);
  c.mask.right = up_to(0, 2) == 0 ? AttentionMask::kUnlimited : up_to(0, 2) == 0 ? up_to(0, c.keys / 2) : 0;
  if (up_to(0, 2) == 0) c.mask.chunk = up_to(1, c.keys);
  if (up_to(0, 1) == 1) c.document = up_to(1, c.keys);
  c.sinks = up_to(0, 2) == 0;
  if (up_to(0, 2) == 0) c.key_block = up_to(1, c.keys), c.gaps = c.document == 0 && up_to(0, 1) == 1;
  if (up_to(0, 2) == 0) c.queries = up_to(1, c.keys);
  return c;
}

}  // namespace

TEST_CASE("attention's kernels equal dense attention in f64 for all masks") {
  for (const std::int64_t left : {AttentionMask::kUnlimited, std::int64_t{0}, std::int64_t{21}})
    for (const std::int64_t right : {AttentionMask::kUnlimited, std::int64_t{0}, std::int64_t{5}})
      for (const std::int64_t chunk : {0, 29})
        for (const std::int64_t document : {0, 40})
          check_dense({.batch = 2,
                       .groups = 2,
                       .keys = 131,
                       .mask = {.left = left, .right = right, .chunk = chunk},
                       .document = document,
                       .sinks = left == 21},
                      1);
}

TEST_CASE(
    "attention's kernels equal dense attention for head widths from 1 to 576 and values of other widths") {
  for (const auto& [width, value_width] :
       {std::pair(1, 1), std::pair(8, 3), std::pair(16, 16), std::pair(33, 70), std::pair(80, 64),
        std::pair(192, 128), std::pair(576, 512)})
    check_dense({.groups = 1, .group_heads = 2, .keys = 70, .width = width, .value_width = value_width}, 2);
}

TEST_CASE(
    "attention's kernels equal dense attention for one token and around the sizes of tiles and blocks") {
  for (const int keys : {1, 2, 31, 32, 33, 63, 64, 65, 127, 128, 129, 257})
    check_dense({.group_heads = 2, .keys = keys, .sinks = keys % 2 == 0}, 3);
}

TEST_CASE("attention's kernels equal dense attention in random cases") {
  for (unsigned seed = 0; seed < 40; ++seed) check_dense(random_case(seed), seed);
}

TEST_CASE("attention without queries gives no output, and without keys zeros") {
  AttentionOperands operands = operands_of({.groups = 2, .keys = 40}, 4);
  const bool sinks = GENERATE(false, true);
  if (sinks) operands.sinks = at::full({2}, 0.75);
  for (const auto& [queries, keys] : {std::pair(0, 40), std::pair(40, 0)}) {
    operands.q = heads(1, 2, queries, 8), operands.k = heads(1, 2, keys, 8),
    operands.v = heads(1, 2, keys, 8);
    const Results made = run(operands, grad_of(operands));
    for (const Tensor& x : {made.output, made.grad_q, made.grad_k, made.grad_v})
      CHECK(at::equal(x, at::zeros(x.sizes())));
    CHECK(
        at::allclose(made.logsumexp,
                     at::full_like(made.logsumexp, sinks ? 0.75 : std::numeric_limits<double>::infinity())));
  }
}

TEST_CASE("attention's bits do not depend on the number of threads, with many groups and with one") {
  const at::ScalarType dtype = any_dtype();
  for (const int groups : {1, 4}) {
    const AttentionOperands operands = in_dtype(
        operands_of({.groups = groups, .group_heads = 3, .keys = 700, .width = 24, .document = 200}, 5),
        dtype);
    const Tensor grad = grad_of(operands);
    check_same_with_threads([&] { return run(operands, grad).all(); });
  }
}

TEST_CASE("a query's bits do not depend on which other queries are in the call") {
  const at::ScalarType dtype = any_dtype();
  for (const Tiles* const tiles : supported_attention_tiles()) {
    AttentionOperands operands = in_dtype(
        operands_of({.groups = 2, .keys = 301, .width = 24, .mask = {.left = 90}, .document = 150}, 6),
        dtype);
    const Tensor grad = grad_of(operands);
    const Results all = run(operands, grad, tiles);
    const Tensor some = at::randperm(301).narrow(0, 0, 77);
    operands.q = operands.q.index_select(2, some);
    operands.query_positions = some.to(at::kInt).unsqueeze(0);
    const Results made = run(operands, grad.index_select(2, some), tiles);
    INFO(dtype << ", tiles " << tiles->name);
    CHECK(at::equal(made.output, all.output.index_select(2, some)));
    CHECK(at::equal(made.logsumexp, all.logsumexp.index_select(2, some)));
    CHECK(at::equal(made.grad_q, all.grad_q.index_select(2, some)));
  }
}

TEST_CASE("attention's bits do not depend on the storage order of keys") {
  const at::ScalarType dtype = any_dtype();
  const AttentionOperands operands =
      in_dtype(operands_of({.batch = 1, .groups = 2, .keys = 301, .width = 24}, 7), dtype);
  const Tensor grad = grad_of(operands);
  const Results in_order = run(operands, grad);
  std::mt19937 random(7);
  const Tensor positions = permuted_blocks(301, 40, random), index = positions.to(at::kLong);
  AttentionOperands permuted = operands;
  permuted.k = operands.k.index_select(2, index), permuted.v = operands.v.index_select(2, index);
  permuted.key_positions = positions.unsqueeze(0);
  const Results made = run(permuted, grad);
  CHECK(at::equal(made.output, in_order.output));
  CHECK(at::equal(made.grad_q, in_order.grad_q));
  CHECK(at::equal(made.grad_k, in_order.grad_k.index_select(2, index)));
  CHECK(at::equal(made.grad_v, in_order.grad_v.index_select(2, index)));
}

TEST_CASE("attention reads operands and gradients of any strides") {
  const AttentionOperands operands = operands_of({.batch = 2, .groups = 2, .keys = 45, .width = 24}, 8);
  const Tensor grad = grad_of(operands);
  const auto columns_first = [](const Tensor& x) { return x.transpose(2, 3).contiguous().transpose(2, 3); };
  AttentionOperands other = operands;
  other.q = operands.q.contiguous(), other.k = columns_first(operands.k), other.v = columns_first(operands.v);
  const Results made = run(other, columns_first(grad)), expected = run(operands, grad);
  for (std::size_t i = 0; i < made.all().size(); ++i) {
    CHECK(at::equal(made.all()[i], expected.all()[i]));
    CHECK(made.all()[i].strides() == expected.all()[i].strides());
  }
}

TEST_CASE("a NaN reaches the queries that see it, and no others") {
  const at::ScalarType dtype = any_dtype();
  const bool in_key = GENERATE(true, false);
  AttentionOperands operands = in_dtype(operands_of({.keys = 90}, 9), dtype);
  (in_key ? operands.k : operands.v).select(2, 50).fill_(std::numeric_limits<float>::quiet_NaN());
  for (const Tiles* const tiles : supported_attention_tiles()) {
    const Tensor wrong = std::get<0>(attention_forward_cpu(operands, tiles)).isnan();
    INFO(dtype << ", tiles " << tiles->name);
    CHECK(wrong.narrow(2, 50, 40).all().item<bool>());
    CHECK_FALSE(wrong.narrow(2, 0, 32).any().item<bool>());
  }
}

// oneDNN's products of bf16 keep AMX tiles configured between calls.
TEST_CASE("other products have the same bits before and after attention") {
  if (!at::native::cpublas::could_pack(at::kBFloat16))
    SKIP("oneDNN has no products of bf16 for this machine");
  const Tensor a = at::randn({16, 64}).to(at::kBFloat16), b = at::randn({64, 32}).to(at::kBFloat16);
  const auto product = [&] {
    Tensor result = at::zeros({16, 32});  // only 8 rows are computed
    at::native::cpublas::brgemm(8, 32, 64, 64, 32, 32, false, a.const_data_ptr<at::BFloat16>(),
                                b.const_data_ptr<at::BFloat16>(), result.mutable_data_ptr<float>());
    return result;
  };
  const AttentionOperands operands = in_dtype(operands_of({.keys = 90}, 10), at::kBFloat16);
  const Tensor before = product();
  for (const Tiles* const tiles : supported_attention_tiles()) {
    attention_forward_cpu(operands, tiles);
    CHECK(at::equal(product(), before));
  }
  at::native::cpublas::brgemm_release();
}

// With a logsumexp of 0 and a gradient of 1, a value's gradient is 2^k.
TEST_CASE("exp of f32 has an error of at most 2 units in the last place, and is zero below 2^-126") {
  const Tensor exponents = at::cat({at::linspace(-126, 0, 40001), at::linspace(-400, -126.001, 100)});
  AttentionOperands operands;
  operands.q = at::ones({1, 1, 1, 1}), operands.k = exponents.view({1, 1, -1, 1}), operands.v = operands.k;
  operands.mask.right = AttentionMask::kUnlimited;
  operands.scale = std::log(2.0);
  const Tensor one = at::ones({1, 1, 1, 1});
  for (const Tiles* const tiles : supported_attention_tiles()) {
    const Tensor powers =
        std::get<2>(attention_backward_cpu(operands, one, one, at::zeros({1, 1, 1}), tiles)).flatten();
    double worst = 0;
    bool zero = true;
    for (std::int64_t i = 0; i < powers.numel(); ++i) {
      const float x = exponents[i].item<float>(), made = powers[i].item<float>();
      const double exact = std::exp2(static_cast<double>(x));
      if (x < -126)
        zero = zero && made == 0;
      else
        worst = std::max(worst, std::abs(made - exact) / std::ldexp(1.0, std::ilogb(exact) - 23));
    }
    INFO("tiles " << tiles->name);
    CHECK(zero);
    CHECK(worst <= 2);
    CHECK(powers[40000].item<float>() == 1);
  }
}

}  // namespace rondo
