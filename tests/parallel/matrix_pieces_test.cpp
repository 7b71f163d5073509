// Whole matrices of ranks that are threads of this process and meet over Gloo.
#include "parallel/matrix_pieces.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include "parallel/collectives.h"
#include "tests/parallel/rank_threads.h"

namespace rondo {
namespace {

using at::Tensor;
using Tensors = std::vector<Tensor>;

// Parameters of one size on `shards` * `cut.parts` ranks.
struct Held {
  const char* name;
  Sizes sizes;
  std::int64_t shards;
  Cut cut = {};
  int dim = 0;  // along which blocks lie
  std::int64_t blocks = 1;
  RowPart rows = {};
};

const Held kHeld[] = {
    {"shards alone", {6, 4}, 3},
    {"shards with padding", {5, 7}, 4},
    {"rows are cut", {6, 4}, 2, {0, 2}, 0},
    {"uneven rows are cut", {5, 3}, 1, {0, 3}, 0},
    {"columns are cut", {4, 6}, 2, {1, 2}, 1},
    {"uneven columns are cut, with padding of shards", {3, 7}, 2, {1, 2}, 1},
    {"a stack whose shards end inside of matrices", {2, 3, 5}, 4, {}, 1},
    {"a stack of whole matrices on each rank", {6, 3, 5}, 3, {}, 1},
    {"a stack of some of the experts", {6, 4, 3}, 2, {}, 1, 1, {3, 1}},
    {"a stack of experts that a cut divides", {6, 4, 3}, 2, {0, 3, 2}, 1},
    {"gates beside ups", {2, 3, 10}, 2, {}, 2, 2},
    {"gates beside ups, each cut", {2, 3, 10}, 2, {2, 2, 0, 2}, 2, 2, {2, 0}},
};

FlatShard shard_of(const Held& held, std::int64_t rank) {
  Cut cut = held.cut;
  const bool of_rank = held.sizes.size() == 2 || cut.dim > 0;
  const std::int64_t cuts = of_rank ? cut.parts : 1;
  if (of_rank) cut.part = rank % cuts;
  return {held.sizes, cut, held.shards, rank / cuts, held.rows};
}

Tensor stored(const Tensor& whole, const FlatShard& shard) {
  Tensor part = at::zeros({shard.stored()}, whole.options());
  shard.for_each_run([&](const ElementRun& run) {
    part.narrow(0, run.in_shard, run.count).copy_(whole.view({-1}).narrow(0, run.in_whole, run.count));
  });
  return part;
}

// Returns the matrices of a whole parameter that a group of ranks holds, block by block.
Tensor matrices_of(const Tensor& whole, const FlatShard& shard, const Held& held) {
  Tensor own = held.sizes.size() == 2 ? whole.unsqueeze(0) : whole;
  const bool cut_by_experts = held.sizes.size() == 3 && held.cut.dim == 0;
  const std::int64_t parts = cut_by_experts ? shard.cut().parts : shard.rows().parts,
                     part = cut_by_experts ? shard.cut().part : shard.rows().part;
  own = own.chunk(parts, 0)[static_cast<std::size_t>(part)];
  const std::int64_t dim = held.dim + (held.sizes.size() == 2 ? 1 : 0);
  return at::cat(own.chunk(held.blocks, std::max<std::int64_t>(dim, 1)), 0);
}

}  // namespace

TEST_CASE("each matrix is whole on one rank, and its shards come back from there") {
  const Held held = GENERATE(from_range(std::begin(kHeld), std::end(kHeld)));
  const std::int64_t parameters = GENERATE(1, 5);
  CAPTURE(held.name, parameters);
  const bool of_rank = held.sizes.size() == 2 || held.cut.dim > 0;
  const std::int64_t ranks = held.shards * (of_rank ? held.cut.parts : 1);
  Tensors wholes;
  for (std::int64_t i = 0; i < parameters; ++i) wholes.push_back(at::randn(held.sizes, at::kDouble));
  std::vector<Tensors> on_rank(static_cast<std::size_t>(ranks)), back = on_rank, before = on_rank;
  std::vector<MatrixPieces> pieces(static_cast<std::size_t>(ranks));
  on_ranks(static_cast<int>(ranks), [&](std::int64_t rank, const AxisGroup& group) {
    const auto at = static_cast<std::size_t>(rank);
    const FlatShard shard = shard_of(held, rank);
    pieces[at] = matrix_pieces(shard, group, held.dim, held.blocks);
    for (const Tensor& whole : wholes) before[at].push_back(stored(whole, shard));
    const Tensor matrices = whole_matrices(before[at], pieces[at]);
    on_rank[at] = matrices.unbind(0);
    back[at] = shards_of_matrices(matrices * 3, parameters, pieces[at]);
    all_reduce_sum(at::zeros({1}), group);  // no rank leaves before another one came
  });
  for (std::int64_t rank = 0; rank < ranks; ++rank)
    for (std::int64_t i = 0; i < parameters; ++i) {
      const auto at = static_cast<std::size_t>(rank), of = static_cast<std::size_t>(i);
      CHECK(at::equal(back[at][of], before[at][of] * 3));
    }
  const bool exchanges = pieces[0].holders.ranks > 1;
  const std::int64_t of_owner = (parameters + ranks - 1) / ranks;
  for (std::int64_t i = 0; exchanges && i < parameters; ++i) {
    const Tensor expected = matrices_of(wholes[static_cast<std::size_t>(i)], shard_of(held, 0), held);
    const Tensors& owned = on_rank[static_cast<std::size_t>(i / of_owner)];
    const std::int64_t of_block = pieces[0].matrices, place = i % of_owner;
    for (std::int64_t m = 0; m < expected.size(0); ++m) {
      // The matrices of a parameter are consecutive.
      CHECK(at::equal(owned[static_cast<std::size_t>(place * expected.size(0) + m)], expected[m]));
      CHECK(expected.size(0) == of_block * held.blocks);
    }
  }
  if (exchanges) {
    std::int64_t elements = 0;
    for (const Tensors& owned : on_rank)
      for (const Tensor& matrix : owned) elements += matrix.numel();
    CHECK(elements == ranks * of_owner * pieces[0].elements());
    CHECK(std::ssize(on_rank[0]) == of_owner * pieces[0].matrices * held.blocks);
  }
}

TEST_CASE("ranks that store whole matrices of a stack exchange nothing") {
  const FlatShard shard({6, 3, 5}, {}, 3, 1);
  const MatrixPieces pieces = matrix_pieces(shard, {"no such group", 3, 1}, 1, 1);
  CHECK(pieces.holders.ranks == 1);
  const Tensor whole = at::randn({6, 3, 5});
  CHECK(at::equal(whole_matrices({stored(whole, shard)}, pieces), whole.narrow(0, 2, 2)));
}

}  // namespace rondo
