// Permuted and summed rows against plain ATen in double precision.
#include "ops/permute_tokens/permute_tokens.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/argsort.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/einsum.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/autograd.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cmath>

#include "ops/kernel/with_dtype.h"
#include "parallel/expert_parallel.h"

namespace rondo {
namespace {

using at::Tensor;
using Tensors = std::vector<Tensor>;

constexpr std::int64_t kTokens = 37, kCopies = 3, kWidth = 50, kExperts = 6;

// Slots sorted by expert: random slots of experts 1 to 5 and none of expert 0; or all of expert 4.
struct Rows {
  Tensor experts_TK, order_N, place_TK;
};
Rows rows_by_expert(bool all_to_one) {
  Rows rows;
  rows.experts_TK = all_to_one ? at::full({kTokens, kCopies}, 4, at::kLong)
                               : at::randint(1, kExperts, {kTokens, kCopies}, at::kLong);
  rows.order_N = std::get<1>(at::sort(rows.experts_TK.view({-1}), /*stable=*/true, 0, false));
  rows.place_TK = at::argsort(rows.order_N).view({kTokens, kCopies});
  return rows;
}

Tensor count_of(std::int64_t rows) { return at::full({}, rows, at::kInt); }

// Returns 1 for each valid row, 0 for the others.
Tensor counting(std::int64_t rows, std::int64_t count) {
  return at::cat({at::ones({count, 1}, at::kDouble), at::zeros({rows - count, 1}, at::kDouble)});
}

double tolerance_of(at::ScalarType dtype) {
  return dtype == at::kDouble ? 1e-12 : dtype == at::kFloat ? 2e-6 : 1e-2;
}

void check_close(const Tensor& ours, const Tensor& expected, at::ScalarType dtype) {
  const double tolerance = tolerance_of(dtype);
  CHECK(at::allclose(ours.to(at::kDouble), expected, tolerance, tolerance * 4));
}

}  // namespace

TEST_CASE("rows are copied by slot, times their scores, and are zero after the count") {
  const auto dtype = GENERATE(at::kDouble, at::kFloat, at::kBFloat16);
  const std::int64_t count = GENERATE(0, 1, 60, kTokens * kCopies);
  const bool all_to_one = GENERATE(false, true);
  const Rows map = rows_by_expert(all_to_one);
  const Tensor x = at::randn({kTokens, kWidth}).to(dtype);
  const Tensor scores = at::rand({kTokens, kCopies}, dtype == at::kDouble ? at::kDouble : at::kFloat);
  const Tensor plain = at::index_select(x.to(at::kDouble), 0, map.order_N.div(kCopies, "floor")) *
                       counting(kTokens * kCopies, count);
  const Tensor ours = permute_tokens(x, map.order_N, count_of(count), kCopies);
  CHECK(ours.scalar_type() == dtype);
  CHECK(at::equal(ours.to(at::kDouble), plain));
  const Tensor of_slots = at::index_select(scores.to(at::kDouble).view({-1, 1}), 0, map.order_N);
  check_close(permute_tokens(x, map.order_N, count_of(count), kCopies, scores), plain * of_slots, dtype);
  // Fewer rows than slots.
  CHECK(at::equal(permute_tokens(x, map.order_N.narrow(0, 0, 20), count_of(count), kCopies),
                  ours.narrow(0, 0, 20)));
}

TEST_CASE("a token's rows are added in fp32 with their scores, and slots without a row add nothing") {
  const auto dtype = GENERATE(at::kDouble, at::kFloat, at::kBFloat16);
  const std::int64_t count = GENERATE(0, 60, kTokens * kCopies);
  const Rows map = rows_by_expert(false);
  Tensor rows = at::randn({kTokens * kCopies, kWidth}).to(dtype);
  const auto sum_dtype = dtype == at::kDouble ? at::kDouble : at::kFloat;
  const Tensor scores = at::rand({kTokens, kCopies}, sum_dtype), x = at::randn({kTokens, kWidth}).to(dtype);
  const Tensor slots_TKD =
      at::index_select(rows.to(at::kDouble) * counting(kTokens * kCopies, count), 0, map.place_TK.view({-1}))
          .view({kTokens, kCopies, kWidth});
  // Rows after the count are not even read.
  rows.narrow(0, count, kTokens * kCopies - count).fill_(std::nan(""));
  const Tensor sums = unpermute_tokens(rows, map.place_TK, count_of(count), scores);
  CHECK(sums.scalar_type() == sum_dtype);
  check_close(sums, (slots_TKD * scores.to(at::kDouble).unsqueeze(-1)).sum(1), sum_dtype);
  check_close(unpermute_tokens(rows, map.place_TK, count_of(count)), slots_TKD.sum(1), sum_dtype);
  const Tensor products = dot_rows(rows, x, map.place_TK, count_of(count));
  CHECK(products.scalar_type() == sum_dtype);
  const Tensor expected = (slots_TKD * x.to(at::kDouble).unsqueeze(1)).sum(-1);
  CHECK(at::allclose(products.to(at::kDouble), expected, 1e-5, 2e-5));
}

TEST_CASE("sums of slots are rounded once if narrow, and pieces are added in their order and rounded once") {
  constexpr std::int64_t kPieces = 4, kWide = 300;  // more columns than a sum has at a time
  const auto dtype = GENERATE(at::kDouble, at::kFloat, at::kBFloat16);
  const Rows map = rows_by_expert(false);
  const Tensor rows = at::randn({kTokens * kCopies, kWide}).to(dtype), count = count_of(60);
  const Tensor scores = at::rand({kTokens, kCopies}).to(sum_dtype(rows));
  const Tensor narrow = unpermute_tokens(rows, map.place_TK, count, scores, /*narrow=*/true);
  CHECK(narrow.scalar_type() == dtype);
  CHECK(at::equal(narrow, unpermute_tokens(rows, map.place_TK, count, scores).to(dtype)));

  const Tensor x = at::randn({kPieces * kTokens, kWide}).to(dtype);
  Tensor sums = at::zeros({kTokens, kWide}, at::TensorOptions().dtype(sum_dtype(x)));
  for (std::int64_t piece = 0; piece < kPieces; ++piece)
    sums += x.narrow(0, piece * kTokens, kTokens).to(sum_dtype(x));
  const Tensor summed = sum_pieces(x, kPieces, "ep");
  CHECK(summed.scalar_type() == dtype);
  CHECK(at::equal(summed, sums.to(dtype)));
  CHECK_THROWS(sum_pieces(x, 3, "ep"));
}

TEST_CASE("an addend gives the bits of rows that are added before, and its empty rows are not read") {
  constexpr std::int64_t kSlots = kTokens * kCopies;
  const auto dtype = GENERATE(at::kDouble, at::kFloat, at::kBFloat16);
  const std::int64_t count = GENERATE(0, 60, kTokens * kCopies);
  const Rows map = rows_by_expert(false);
  const Tensor scores = at::rand({kTokens, kCopies}).to(sum_dtype(dtype)), counted = count_of(count);
  const auto empty = [&](const Tensor& rows) { return rows.narrow(0, count, kSlots - count); };
  Tensor rows = at::randn({kSlots, kWidth}).to(dtype), addend = at::randn({kSlots, kWidth}).to(dtype);
  const Tensor sum = rows + addend;
  for (const bool scored : {false, true}) {
    const MaybeTensor by = scored ? MaybeTensor(scores) : std::nullopt;
    // One copy, in place: row i is row i of the operand.
    const MaybeTensor by_row = scored ? MaybeTensor(scores.view({kSlots, 1})) : std::nullopt;
    const Tensor in_place = at::arange(kSlots, at::kLong);
    const Tensor permuted = permute_tokens(sum, in_place, counted, 1, by_row);
    for (const bool narrow : {false, true}) {
      const Tensor sums = unpermute_tokens(sum, map.place_TK, counted, by, narrow);
      for (Tensor* operand : {&rows, &addend}) {
        const Tensor kept = operand->clone();
        empty(*operand).fill_(std::nan(""));
        CHECK(at::equal(unpermute_tokens(rows, map.place_TK, counted, by, narrow, addend), sums));
        CHECK(at::equal(permute_tokens(rows, in_place, counted, 1, by_row, addend), permuted));
        operand->copy_(kept);
      }
    }
  }
  const Tensor x = at::randn({kTokens, kWidth}).to(dtype), more = at::randn({kTokens, kWidth}).to(dtype);
  CHECK(at::equal(permute_tokens(x, map.order_N, counted, kCopies, scores, more),
                  permute_tokens(x + more, map.order_N, counted, kCopies, scores)));
  CHECK_THROWS(unpermute_tokens(rows, map.place_TK, counted, {}, false, addend.narrow(0, 0, 1)));
  CHECK_THROWS(permute_tokens(rows, map.order_N, counted, 1, {}, addend.to(at::kHalf)));
}

TEST_CASE("without a count all rows are valid") {
  const Rows map = rows_by_expert(false);
  const Tensor x = at::randn({kTokens, kWidth});
  const Tensor rows = permute_tokens(x, map.order_N, {}, kCopies);
  CHECK(at::equal(rows, permute_tokens(x, map.order_N, count_of(kTokens * kCopies), kCopies)));
  check_close(unpermute_tokens(rows, map.place_TK, {}), x.to(at::kDouble) * static_cast<double>(kCopies),
              at::kFloat);
}

TEST_CASE("dispatch to experts of one rank, their output and combine have the gradients of dense sums") {
  const bool all_to_one = GENERATE(false, true);
  const Rows map = rows_by_expert(all_to_one);
  Tensor x = at::randn({kTokens, kWidth}, at::kDouble), scores = at::rand({kTokens, kCopies}, at::kDouble);
  Tensor scale = at::randn({kExperts, kWidth}, at::kDouble);  // factors of each expert
  for (Tensor* t : {&x, &scores, &scale}) t->requires_grad_(true);
  const auto ep = expert_parallel({});
  const Dispatched dispatched = ep->dispatch(x, map.experts_TK, kExperts);
  CHECK_FALSE(dispatched.dropped_tokens.defined());
  const Tensor ids = at::index_select(map.experts_TK.view({-1}), 0, map.order_N);
  CHECK(at::equal(
      dispatched.ends_E,
      at::sum(ids.unsqueeze(1) <= at::tensor(std::vector<std::int64_t>{0, 1, 2, 3, 4, 5}), 0).to(at::kInt)));
  const Tensor results = dispatched.rows_RD * at::index_select(scale, 0, ids);
  const Tensor y = ep->combine(results, dispatched, scores);
  const Tensor of_slots =
      at::index_select(scale, 0, map.experts_TK.view({-1})).view({kTokens, kCopies, kWidth});
  const Tensor dense = (x.unsqueeze(1) * of_slots * scores.unsqueeze(-1)).sum(1);
  CHECK(at::allclose(y, dense, 1e-12, 1e-12));
  const Tensor weight = at::randn({kTokens, kWidth}, at::kDouble);
  const Tensors ours = torch::autograd::grad({(y * weight).sum()}, {x, scores, scale});
  const Tensors expected = torch::autograd::grad({(dense * weight).sum()}, {x, scores, scale});
  for (std::size_t i = 0; i < ours.size(); ++i) CHECK(at::allclose(ours[i], expected[i], 1e-11, 1e-11));
}

TEST_CASE("a rank's capacity is the worst case, or the factor times the rows of balanced routers") {
  ExpertParallelOptions e{{"ep", 4, 1}};
  CHECK(e.capacity(100, 3, 8) == 4 * 100 * 2);  // two experts are here
  CHECK(e.capacity(100, 3, 32) == 4 * 100 * 3);
  CHECK_FALSE(e.is_bounded());
  e.capacity_factor = 1.125;
  CHECK(e.is_bounded());
  CHECK(e.capacity(100, 3, 32) == 338);
  e.capacity_factor = 1000;
  CHECK(e.capacity(100, 3, 32) == 1200);
  CHECK(ExpertParallelOptions{}.capacity(100, 3, 8) == 300);
}

TEST_CASE("rows received by rank are ordered by expert and back, and rows after them stay") {
  const Tensor counts = at::tensor({2, 0, 3, 1, 0, 4, 0, 0, 0, 2, 1, 0}, at::kInt).view({4, 3});
  constexpr std::int64_t kCame = 13, kRoom = 16;
  const RowOrder order = order_by_expert(counts, kRoom, "ep");
  // Rows in the order of ranks: rank and expert of each.
  std::vector<std::int64_t> ranks, experts;
  for (std::int64_t rank = 0; rank < 4; ++rank)
    for (std::int64_t expert = 0; expert < 3; ++expert)
      for (std::int64_t i = 0; i < counts[rank][expert].item<int>(); ++i)
        ranks.push_back(rank), experts.push_back(expert);
  REQUIRE(std::ssize(ranks) == kCame);
  const Tensor by_expert = std::get<1>(
      at::sort(at::tensor(experts, at::kLong) * 4 + at::tensor(ranks, at::kLong), /*stable=*/true, 0, false));
  CHECK(at::equal(order.order_R.narrow(0, 0, kCame), by_expert));
  CHECK(at::equal(order.order_R.narrow(0, kCame, kRoom - kCame), at::tensor({13, 14, 15}, at::kLong)));
  CHECK(at::equal(order.place_R, at::argsort(order.order_R)));
  CHECK_THROWS(order_by_expert(counts, kCame - 1, "ep"));
}

}  // namespace rondo
