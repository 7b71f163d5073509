#include "datasets/documents/order.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <numeric>

using namespace rondo;

// The expected values come from a second implementation of the same definitions.
TEST_CASE("hashes and orders never change their bits") {
  // A change here changes the splits and the data order of every existing run.
  CHECK(stable_hash("ATen/ATen.h") == 0x2bc81f8367dcf79c);
  CHECK(document_order(8, 42, 0) == std::vector<std::uint32_t>{7, 0, 3, 4, 6, 2, 5, 1});
  std::vector<std::int64_t> samples;
  const SamplePermutation permutation(8, 42, 1);
  for (std::int64_t place = 0; place < 8; ++place) samples.push_back(permutation(place));
  CHECK(samples == std::vector<std::int64_t>{7, 6, 5, 0, 2, 4, 1, 3});
}

TEST_CASE("mix64 and FNV-1a agree with their published values") {
  // SplitMix64 with seed 0 returns 0xe220a8397b1dcdaf first. FNV-1a of "foobar" is
  // 0x85944171f73967e8.
  CHECK(mix64(0x9e3779b97f4a7c15) == 0xe220a8397b1dcdaf);
  CHECK(stable_hash("foobar") == mix64(0x85944171f73967e8));
}

TEST_CASE("a sample permutation of any size is a bijection, and epochs and seeds differ") {
  for (const std::int64_t count : {1, 2, 3, 4, 5, 7, 16, 17, 63, 64, 65, 1000, 4097}) {
    CAPTURE(count);
    std::vector<std::int64_t> seen[3];
    const SamplePermutation permutations[] = {{count, 1, 0}, {count, 1, 1}, {count, 2, 0}};
    for (int which = 0; which < 3; ++which)
      for (std::int64_t place = 0; place < count; ++place) seen[which].push_back(permutations[which](place));
    if (count >= 63) {
      CHECK(seen[0] != seen[1]);
      CHECK(seen[0] != seen[2]);
    }
    for (std::vector<std::int64_t>& samples : seen) {
      std::sort(samples.begin(), samples.end());
      std::vector<std::int64_t> all(static_cast<std::size_t>(count));
      std::iota(all.begin(), all.end(), 0);
      REQUIRE(samples == all);
    }
  }
}

TEST_CASE("neighbouring places get samples that are far apart") {
  const std::int64_t count = 10000;
  const SamplePermutation permutation(count, 3, 0);
  std::int64_t near = 0;
  for (std::int64_t place = 1; place < count; ++place)
    near += std::abs(permutation(place) - permutation(place - 1)) < count / 100;
  CHECK(near < count / 100 * 3);  // 2 % on average
}

TEST_CASE("document orders are permutations in which every document is equally often first") {
  std::int64_t first[5] = {};
  for (std::int64_t epoch = 0; epoch < 5000; ++epoch) {
    std::vector<std::uint32_t> order = document_order(5, 9, epoch);
    ++first[order[0]];
    std::sort(order.begin(), order.end());
    REQUIRE(order == std::vector<std::uint32_t>{0, 1, 2, 3, 4});
  }
  for (const std::int64_t times : first) CHECK((900 < times && times < 1100));
}
