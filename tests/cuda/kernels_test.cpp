// CUDA kernels on the host (tests/cuda/host/cuda_runtime_api.h) against the CPU's kernels of the
// same ops.
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/randperm.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <limits>
#include <random>

#include "models/parts/initialize.h"
#include "ops/grouped_mm/grouped_mm.h"
#include "ops/grouped_mm/grouped_mm_cuda.h"
#include "ops/grouped_sum/grouped_sum.h"
#include "ops/grouped_sum/grouped_sum_cuda.h"
#include "ops/normal_draws/normal_draws_cuda.h"
#include "ops/permute_tokens/permute_tokens.h"
#include "ops/permute_tokens/permute_tokens_cuda.h"
#include "ops/sort_slots/sort_slots.h"
#include "ops/sort_slots/sort_slots_cuda.h"
#include "ops/sums_of_squares/sums_of_squares_cuda.h"
#include "ops/sums_of_squares/sums_of_squares_math.h"
#include "tests/cuda/element_of.h"
#include "tests/cuda/int_tensors.h"
#include "tests/ops/call_op.h"

namespace rondo {
namespace {

using at::Tensor;
using cuda::Element;

at::ScalarType sums_of(at::ScalarType type) { return type == at::kDouble ? at::kDouble : at::kFloat; }

}  // namespace

TEST_CASE("rows of tokens have the bits of the CPU's kernels") {
  const at::ScalarType type = GENERATE(at::kFloat, at::kBFloat16, at::kDouble);
  const std::int64_t width = GENERATE(50, 64, 7), tokens = 9, copies = 3, slots = tokens * copies;
  const std::int32_t counted = GENERATE(0, 20, 27);
  const Tensor x = at::randn({tokens, width}).to(type), rows = at::randn({slots, width}).to(type);
  const Tensor scores = at::rand({tokens, copies}).to(sums_of(type)), order = at::randperm(slots, at::kLong);
  const Tensor place = at::randperm(slots, at::kLong).view({tokens, copies}), count = ints({counted})[0];
  const auto* const order_data = order.const_data_ptr<std::int64_t>();
  const auto* const place_data = place.const_data_ptr<std::int64_t>();
  const Element element = element_of(x);
  const bool scored = GENERATE(false, true), added = GENERATE(false, true);
  const auto when = [](bool is_given, const Tensor& x) { return is_given ? MaybeTensor(x) : std::nullopt; };
  const auto data_of = [](const MaybeTensor& x) { return x ? x->const_data_ptr() : nullptr; };
  const MaybeTensor by = when(scored, scores), to_x = when(added, x.flip(0)),
                    to_rows = when(added, rows.flip(0));

  const Tensor permuted = at::full({slots, width}, 9, x.options());
  cuda::permute_tokens(element, x.const_data_ptr(), data_of(to_x), order_data, data(count), data_of(by),
                       permuted.mutable_data_ptr(), slots, width, slots, copies, nullptr);
  CHECK(at::equal(permuted, permute_tokens(x, order, count, copies, by, to_x)));
  for (const bool narrow : {false, true}) {
    const auto dtype = narrow ? type : sums_of(type);
    const Tensor summed = at::full({tokens, width}, 9, at::TensorOptions().dtype(dtype));
    cuda::unpermute_tokens(element, rows.const_data_ptr(), data_of(to_rows), place_data, data(count),
                           data_of(by), narrow, summed.mutable_data_ptr(), tokens, copies, slots, width,
                           nullptr);
    CHECK(at::equal(summed, unpermute_tokens(rows, place, count, by, narrow, to_rows)));
  }
  const Tensor of_pieces = at::full({tokens, width}, 9, x.options());
  cuda::sum_pieces(element, rows.const_data_ptr(), of_pieces.mutable_data_ptr(), copies, tokens * width,
                   nullptr);
  CHECK(at::equal(of_pieces, sum_pieces(rows, copies, "ep")));
  const Tensor products = at::full({tokens, copies}, 9, at::TensorOptions().dtype(sums_of(type)));
  cuda::dot_rows(element, rows.const_data_ptr(), x.const_data_ptr(), place_data, data(count),
                 products.mutable_data_ptr(), slots, copies, slots, width, nullptr);
  CHECK(at::equal(products, dot_rows(rows, x, place, count)));
}

TEST_CASE("the order of received rows has the bits of the CPU's kernel") {
  const auto [ranks, experts] = GENERATE(std::pair(1, 1), std::pair(4, 3), std::pair(3, 70));
  const std::int64_t spare = GENERATE(0, 300);
  const Tensor counts = at::randint(0, 9, {ranks, experts}, at::kInt);
  const std::int64_t rows = at::sum(counts).item<std::int64_t>() + spare;
  const Tensor order = at::full({rows}, -1, at::kLong), place = at::full({rows}, -1, at::kLong);
  cuda::order_by_expert(counts.const_data_ptr<std::int32_t>(), ranks, experts, rows,
                        order.mutable_data_ptr<std::int64_t>(), place.mutable_data_ptr<std::int64_t>(),
                        nullptr);
  const RowOrder expected = order_by_expert(counts, rows, "ep");
  CHECK(at::equal(order, expected.order_R));
  CHECK(at::equal(place, expected.place_R));
}

TEST_CASE("slots are sorted as by the CPU's kernel, for one block or several, and few kinds or many") {
  const std::int64_t slots = GENERATE(0, 1, 77, 2048, 5000), kinds = GENERATE(1, 8, 300, 1024);
  const bool uneven = GENERATE(false, true);
  const Tensor drawn = at::randint(kinds, {slots}, at::kLong), keys = uneven ? drawn.clamp_max(2) : drawn;
  const Tensor order = at::full({slots}, -1, at::kLong), place = at::full({slots}, -1, at::kLong),
               counts = at::full({kinds}, -1, at::kInt),
               workspace = at::full({cuda::sort_slots_workspace(slots, kinds)}, -1, at::kInt);
  cuda::sort_slots(keys.const_data_ptr<std::int64_t>(), slots, kinds,
                   workspace.mutable_data_ptr<std::int32_t>(), order.mutable_data_ptr<std::int64_t>(),
                   place.mutable_data_ptr<std::int64_t>(), counts.mutable_data_ptr<std::int32_t>(), nullptr);
  const SortedSlots expected = sort_slots(keys, kinds);
  CHECK(at::equal(order, expected.order_N));
  CHECK(at::equal(place, expected.place_N));
  CHECK(at::equal(counts, expected.counts));
}

TEST_CASE("a key out of range traps the kernel that sorts slots") {
  const Tensor keys = at::full({3}, GENERATE(-1, 2), at::kLong), results = at::empty({6}, at::kLong),
               counts = at::empty({4}, at::kInt);
  auto* const data = results.mutable_data_ptr<std::int64_t>();
  auto* const count = counts.mutable_data_ptr<std::int32_t>();
  CHECK_THROWS(
      cuda::sort_slots(keys.const_data_ptr<std::int64_t>(), 3, 2, count, data, data + 3, count + 2, nullptr));
}

TEST_CASE("more rows than there is room for trap the kernel that orders them") {
  const Tensor counts = at::full({1, 2}, 3, at::kInt), rows = at::empty({2, 5}, at::kLong);
  auto* const data = rows.mutable_data_ptr<std::int64_t>();
  CHECK_THROWS(
      cuda::order_by_expert(counts.const_data_ptr<std::int32_t>(), 1, 2, 5, data, data + 5, nullptr));
}

TEST_CASE("a row of a slot that does not exist traps the kernel") {
  const Tensor x = at::zeros({2, 4}), order = at::full({1}, 2, at::kLong), result = at::empty({1, 4});
  CHECK_THROWS(cuda::permute_tokens(Element::f32, x.const_data_ptr(), nullptr,
                                    order.const_data_ptr<std::int64_t>(), nullptr, nullptr,
                                    result.mutable_data_ptr(), 1, 4, 2, 1, nullptr));
}

TEST_CASE("products of runs equal the CPU's for all strides, with empty runs and rows after the last") {
  const std::int64_t rows = 150, inner = 37, columns = 70, experts = 5;
  const Tensor ends =
      GENERATE(as<Tensor>(), ints({3, 3, 80, 81, 140}), ints({0, 0, 150, 150, 150}), ints({0, 0, 0, 0, 0}));
  const at::ScalarType type = GENERATE(at::kDouble, at::kFloat, at::kBFloat16);
  const bool transposed = GENERATE(false, true);
  const auto made = [&](at::IntArrayRef sizes) {
    const Tensor x = at::randn(sizes).to(type);
    return transposed ? x.transpose(-2, -1).contiguous().transpose(-2, -1) : x;
  };
  const auto matrix = [](const Tensor& x) {
    const std::int64_t last = x.dim() - 1;
    return cuda::Matrix{x.const_data_ptr(), x.stride(last - 1), x.stride(last),
                        x.dim() == 3 ? x.stride(0) : 0};
  };
  const double tolerance = type == at::kDouble ? 1e-12 : (type == at::kFloat ? 1e-5 : 2e-2);

  const Tensor a = made({rows, inner}), stack = made({experts, inner, columns});
  const Tensor by_rows = at::full({rows, columns}, 9, a.options());
  cuda::grouped_by_rows(element_of(a), matrix(a), matrix(stack), data(ends), by_rows.mutable_data_ptr(), rows,
                        inner, columns, experts, nullptr);
  CHECK(at::allclose(by_rows, grouped_mm(a, stack, ends), tolerance, tolerance));

  const Tensor left = made({inner, rows}), right = made({rows, columns});
  const Tensor by_inner = at::full({experts, inner, columns}, 9, a.options());
  cuda::grouped_by_inner(element_of(left), matrix(left), matrix(right), data(ends),
                         by_inner.mutable_data_ptr(), inner, rows, columns, experts, nullptr);
  CHECK(at::allclose(by_inner, grouped_mm(left, right, ends), tolerance, tolerance));
}

TEST_CASE("rows and matrices that no run fills are cleared, and nothing else") {
  const Tensor ends = ints({2, 2, 5});
  const std::int64_t columns = GENERATE(3, 8);
  const Tensor rows = at::full({9, columns}, 1.0f);
  cuda::clear_behind_last(rows.mutable_data_ptr(), data(ends), 3, 9, columns * 4, nullptr);
  CHECK(at::equal(rows.narrow(0, 0, 5), at::full({5, columns}, 1.0f)));
  CHECK(at::equal(rows.narrow(0, 5, 4), at::zeros({4, columns})));
  const Tensor stack = at::full({3, 2, columns}, 1.0f);
  cuda::clear_empty(stack.mutable_data_ptr(), data(ends), 3, 2 * columns * 4, nullptr);
  for (std::int64_t e = 0; e < 3; ++e)
    CHECK(at::equal(stack[e], at::full({2, columns}, e == 1 ? 0.0f : 1.0f)));
}

TEST_CASE("biases of runs and sums of runs have the CPU's bits, with empty runs and rows after the last") {
  const std::int64_t rows = 700, width = GENERATE(1, 37, 264), runs = 5;
  const Tensor ends =
      GENERATE(as<Tensor>(), ints({3, 3, 80, 81, 660}), ints({0, 0, 700, 700, 700}), ints({0, 0, 0, 0, 0}));
  const at::ScalarType type = GENERATE(at::kFloat, at::kBFloat16);
  const Tensor x = at::randn({rows, width}).to(type), bias = at::randn({runs, width}).to(type);
  const cuda::GroupedRows in{rows, width, runs, element_of(x), x.const_data_ptr(), data(ends)};

  const Tensor added = at::full({rows, width}, 9, x.options());
  cuda::grouped_add(in, bias.const_data_ptr(), added.mutable_data_ptr(), nullptr);
  CHECK(at::equal(added, grouped_add(x, bias, ends)));

  const Tensor sums = at::full({runs, width}, 9, x.options());
  const Tensor parts = at::empty({cuda::grouped_sum_parts(in), width}, at::kFloat);
  cuda::grouped_sum(in, parts.mutable_data_ptr<float>(), sums.mutable_data_ptr(), nullptr);
  CHECK(at::equal(sums, grouped_sum(x, ends)));
}

TEST_CASE("tiles of runs hold every row once, and their number is within the bound") {
  std::mt19937 random(7);
  for (int round = 0; round < 80; ++round) {
    const std::int64_t rows = random() % 300, experts = 1 + random() % 8, tile_rows = 1 + random() % 64;
    std::vector<std::int32_t> ends(static_cast<std::size_t>(experts));
    for (auto& end : ends) end = static_cast<std::int32_t>(rows == 0 ? 0 : random() % (rows + 1));
    std::sort(ends.begin(), ends.end());
    std::int64_t next = 0;
    for (std::int64_t i = 0; i < cuda::most_run_tiles(rows, experts, tile_rows); ++i) {
      const cuda::RunTile tile = cuda::run_tile(ends.data(), experts, rows, tile_rows, i);
      if (tile.run > experts) continue;
      CHECK(tile.begin == next);
      CHECK(tile.end <= (tile.run < experts ? ends[static_cast<std::size_t>(tile.run)] : rows));
      CHECK((tile.run == 0 || tile.begin >= ends[static_cast<std::size_t>(tile.run - 1)]));
      next = tile.end;
    }
    CHECK(next == rows);
  }
}

TEST_CASE("sums of squares have the bits of the CPU's kernel, for more tensors than a launch takes") {
  const at::ScalarType type = GENERATE(at::kFloat, at::kBFloat16);
  std::vector<Tensor> tensors;
  for (const std::int64_t count : {1, 255, 0, 16384, 3 * 16384 + 700})
    tensors.push_back(at::randn({count}).to(type));
  for (int i = 0; i < 150; ++i) tensors.push_back(at::randn({1 + i}).to(type));
  tensors.push_back(at::randn({16384 + 901}).to(type).narrow(0, 1, 16384 + 900));  // at an odd address
  tensors.push_back(
      at::cat({at::randn({1023}) * 1e-30, at::full({1}, std::numeric_limits<float>::infinity())}).to(type));
  std::vector<cuda::SquaredTensor> squared;
  std::int64_t chunks = 0;
  for (const Tensor& x : tensors) {
    squared.push_back({x.const_data_ptr(), x.numel(), static_cast<std::int32_t>(squared.size())});
    chunks += squares::chunks_of(x.numel());
  }
  const Tensor sums = at::full({std::ssize(tensors)}, 9, at::kDouble),
               chunk_sums = at::full({chunks}, 9, at::kDouble);
  cuda::sums_of_squares(element_of(tensors[0]), squared, chunk_sums.mutable_data_ptr<double>(),
                        sums.mutable_data_ptr<double>(), nullptr);
  CHECK(at::equal(sums, call("sums_of_squares", tensors)[0]));
}

TEST_CASE("weights drawn by a device's kernel have the CPU's bits") {
  const at::ScalarType type = GENERATE(at::kFloat, at::kBFloat16);
  const Init init{Init::Kind::normal, 0.02, 0.0};
  Tensor expected = at::empty({3000}, type);
  initialize(expected, init, 42, "w", FlatShard({3000}));
  std::uint64_t stream = 0xcbf29ce484222325ull;
  stream = (stream ^ 'w') * 0x100000001b3ull;
  const Tensor drawn = at::full({2001}, 9, type);
  cuda::draw(element_of(drawn), {0.02, 0.0, 1.0, 42, stream}, 1000, 2000, drawn.mutable_data_ptr(), nullptr);
  CHECK(at::equal(drawn.narrow(0, 0, 2000), expected.narrow(0, 1000, 2000)));
  CHECK(drawn[2000].item<float>() == 9);
}

}  // namespace rondo
