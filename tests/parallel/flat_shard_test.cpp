// Where the elements of a parameter lie, against a search element by element.
#include "parallel/flat_shard.h"

#include <catch2/catch_test_macros.hpp>
#include <random>
#include <vector>

#include "support/error.h"
#include "tests/parallel/shares.h"

namespace rondo {
namespace {

std::vector<ElementRun> runs_of(const FlatShard& place) {
  std::vector<ElementRun> runs;
  place.for_each_run([&](const ElementRun& run) { runs.push_back(run); });
  return runs;
}

// The runs name what the search finds, and nothing twice.
void check_shares(const Sizes& sizes, const Shares& shares) {
  INFO(fmt::format("[{}]: {}", fmt::join(sizes, ", "), shares.name()));
  std::vector<int> held(static_cast<std::size_t>(element_count(sizes)));
  for (std::int64_t rank = 0; rank < shares.ranks(); ++rank) {
    const FlatShard place = shares.of(sizes, rank);
    std::vector<std::pair<std::int64_t, std::int64_t>> named;
    for (const ElementRun& run : runs_of(place)) {
      REQUIRE(run.count > 0);
      REQUIRE(run.in_shard >= 0);
      REQUIRE(run.in_shard + run.count <= place.stored());
      for (std::int64_t i = 0; i < run.count; ++i) {
        named.push_back({run.in_shard + i, run.in_whole + i});
        ++held.at(static_cast<std::size_t>(run.in_whole + i));
      }
    }
    REQUIRE(named == elements_at(sizes, shares, rank));
  }
  REQUIRE(held == std::vector<int>(held.size(), 1));
}

}  // namespace

TEST_CASE(
    "every element of a parameter is in one run of one rank, whatever is cut and however it is padded") {
  check_shares({8, 6}, {0, 2, 2});     // rows
  check_shares({7, 6}, {0, 3, 2});     // padded rows
  check_shares({2, 6}, {0, 4, 3});     // ranks without a row
  check_shares({8, 6}, {1, 3, 2});     // columns
  check_shares({8, 7}, {1, 3, 5});     // padded columns
  check_shares({3, 4, 5}, {1, 2, 3});  // a middle dimension
  check_shares({3, 5, 4}, {1, 2, 3});  // and padded
  check_shares({3, 4, 5}, {2, 5, 2});  // the last one
  check_shares({3, 8}, {1, 2, 3, 2});  // of two blocks of columns
  check_shares({3, 6}, {1, 2, 3, 2});  // and padded
  check_shares({259}, {0, 1, 4});      // flat alone
  check_shares({}, {0, 1, 3});         // a scalar
  check_shares({0, 4}, {1, 2, 2});     // nothing
  std::mt19937_64 random(1);
  for (int round = 0; round < 500; ++round) {
    const Sizes sizes = random_sizes(random, 6);
    check_shares(sizes, random_shares(random, sizes, false));
    Shares padded = random_shares(random, sizes, false);
    padded.parts = 1 + below(random, 7);
    if (sizes[static_cast<std::size_t>(padded.dim)] % 3 == 0) padded.blocks = 3;
    check_shares(sizes, padded);
  }
}

TEST_CASE("some of the experts, cut along a later dimension and sharded, are in one run of one rank") {
  const Sizes sizes = {6, 3, 10};
  for (const int dim : {1, 2}) {
    std::vector<int> held(static_cast<std::size_t>(element_count(sizes)));
    for (std::int64_t rows = 0; rows < 3; ++rows)
      for (std::int64_t part = 0; part < 2; ++part)
        for (std::int64_t rank = 0; rank < 4; ++rank) {
          const FlatShard place(sizes, {dim, 2, part}, 4, rank, {3, rows});
          for (const ElementRun& run : runs_of(place))
            for (std::int64_t i = run.in_whole; i < run.in_whole + run.count; ++i) {
              ++held.at(static_cast<std::size_t>(i));
              CHECK(i / 30 / 2 == rows);
              CHECK((dim == 1 ? i / 10 % 3 / 2 : i % 10 / 5) == part);
            }
        }
    CHECK(held == std::vector<int>(held.size(), 1));
  }
  CHECK(FlatShard(sizes, {2, 2, 1}, 1, 0, {3, 2}).part_sizes() == Sizes{2, 3, 5});
  CHECK(runs_of(FlatShard(sizes, {2, 2, 1}, 1, 0, {3, 2})).front().in_whole == 4 * 30 + 5);
}

TEST_CASE("rows are one run, columns one for each row") {
  CHECK(runs_of(FlatShard({8, 6}, {0, 2, 1}, 1, 0)).size() == 1);
  CHECK(runs_of(FlatShard({8, 6}, {1, 2, 1}, 1, 0)).size() == 8);
  const std::vector<ElementRun> runs = runs_of(FlatShard({8, 6}, {1, 2, 1}, 2, 1));
  REQUIRE(runs.size() == 4);
  CHECK(runs[0].in_shard == 0);
  CHECK(runs[0].in_whole == 4 * 6 + 3);
  CHECK(runs[0].count == 3);
  const FlatShard of_blocks({8, 6}, {1, 3, 2, 2}, 1, 0);
  CHECK(of_blocks.part_sizes() == Sizes{8, 2});
  CHECK(runs_of(of_blocks).size() == 16);
  CHECK(runs_of(of_blocks)[1].in_whole == 5);
}

TEST_CASE("shards of a part are equal, and hold less than a rank's count of padding between them") {
  const FlatShard place({5, 7}, {0, 2, 0}, 4, 3);
  CHECK(place.part_sizes() == Sizes{3, 7});
  CHECK(place.part_elements() == 21);
  CHECK(place.stored() == 6);
  CHECK(place.begin() == 18);
  CHECK(place.end() == 21);
}

TEST_CASE("a place of no parameter, part or rank is refused") {
  CHECK_THROWS_AS(FlatShard({4}, {1, 2, 0}, 1, 0), Error);
  CHECK_THROWS_AS(FlatShard({4}, {0, 2, 2}, 1, 0), Error);
  CHECK_THROWS_AS(FlatShard({4}, {}, 2, 2), Error);
  CHECK_THROWS_AS(FlatShard({4, 5}, {1, 2, 0, 2}, 1, 0), Error);
  CHECK_THROWS_AS(FlatShard({5, 4}, {1, 2, 0}, 1, 0, {2, 0}), Error);
  CHECK_THROWS_AS(FlatShard({4, 4}, {0, 2, 0}, 1, 0, {2, 0}), Error);
}

}  // namespace rondo
