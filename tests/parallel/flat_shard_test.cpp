#include <catch2/catch_test_macros.hpp>
#include <vector>

#include "parallel/sharding.h"

namespace rondo {
namespace {

TEST_CASE("flat shards hold every element of a parameter exactly once, in order of the ranks") {
  for (std::int64_t elements = 0; elements <= 130; ++elements) {
    for (int ranks = 1; ranks <= 70; ++ranks) {
      std::vector<int> holders(static_cast<std::size_t>(elements), 0);
      std::int64_t next = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const FlatShard shard{elements, ranks, rank};
        REQUIRE(shard.begin() == next);
        REQUIRE(shard.end() >= shard.begin());
        REQUIRE(shard.end() - shard.begin() <= shard.padded());
        for (std::int64_t i = shard.begin(); i < shard.end(); ++i) ++holders[static_cast<std::size_t>(i)];
        next = shard.end();
      }
      REQUIRE(next == elements);
      REQUIRE(holders == std::vector<int>(static_cast<std::size_t>(elements), 1));
    }
  }
}

TEST_CASE("flat shards pad less than one element a rank") {
  for (const std::int64_t elements : {1L, 63L, 64L, 65L, 4096L * 11008L, (1L << 40) + 1}) {
    for (const int ranks : {1, 2, 3, 7, 64, 1000, 4096}) {
      const FlatShard shard{elements, ranks, 0};
      CHECK(shard.padded() * ranks - elements < ranks);
      CHECK(shard.padded() * ranks >= elements);
    }
  }
}

}  // namespace
}  // namespace rondo
