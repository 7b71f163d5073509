// Initial weights: a function of seed, name and global index alone.
#include "models/parts/initialize.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/std.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "parallel/flat_shard.h"

namespace rondo {
namespace {

const Init kLinear{Init::Kind::truncated_normal, 0.02, 2.0};

at::Tensor whole(const Init& init, std::uint64_t seed, const char* name, std::int64_t elements) {
  at::Tensor result = at::empty({elements});
  initialize(result, init, seed, name, FlatShard({elements}));
  return result;
}

}  // namespace

TEST_CASE("the shards of any number of ranks are the pieces of one rank's parameter, bit for bit") {
  constexpr std::int64_t kElements = 1000 * 7 + 3;
  const int ranks = GENERATE(2, 3, 4, 7, 64);
  const at::Tensor expected = whole(kLinear, 42, "layers.0.attention.wq.weight", kElements);
  std::vector<at::Tensor> pieces;
  for (int rank = 0; rank < ranks; ++rank) {
    const FlatShard shard({kElements}, {}, ranks, rank);
    at::Tensor piece = at::empty({shard.stored()});
    initialize(piece, kLinear, 42, "layers.0.attention.wq.weight", shard);
    for (std::int64_t i = shard.end() - shard.begin(); i < shard.stored(); ++i)
      CHECK(piece.data_ptr<float>()[i] == 0.0f);
    pieces.push_back(piece);
  }
  CHECK(at::equal(at::cat(pieces).narrow(0, 0, kElements), expected));
}

TEST_CASE("every element of a parameter is held by exactly one rank") {
  for (const std::int64_t elements : {1, 2, 5, 64, 1000, 1001})
    for (const int ranks : {1, 2, 3, 8, 100}) {
      std::int64_t next = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const FlatShard shard({elements}, {}, ranks, rank);
        CHECK(shard.begin() == next);
        CHECK(shard.end() - shard.begin() <= shard.stored());
        next = shard.end();
      }
      CHECK(next == elements);
    }
}

TEST_CASE("another seed or another name gives other weights") {
  const at::Tensor a = whole(kLinear, 1, "a", 100);
  CHECK_FALSE(at::equal(a, whole(kLinear, 2, "a", 100)));
  CHECK_FALSE(at::equal(a, whole(kLinear, 1, "b", 100)));
  CHECK(at::equal(a, whole(kLinear, 1, "a", 100)));
}

TEST_CASE("draws have the mean, the deviation and the bounds of their rule") {
  const at::Tensor normal = whole({Init::Kind::normal, 1.0, 0.0}, 3, "embedding", 200000);
  CHECK(std::abs(normal.mean().item<double>()) < 0.01);
  CHECK(std::abs(at::std(normal).item<double>() - 1.0) < 0.01);
  const at::Tensor cut = whole({Init::Kind::truncated_normal, 0.5, 1.5}, 3, "head", 200000);
  CHECK(cut.abs().max().item<double>() <= 1.5);
  CHECK(std::abs(at::std(cut).item<double>() - 0.5 * 0.98658) < 0.005);  // of a normal cut at 3 deviations
}

}  // namespace rondo
