// Ways to share a parameter among ranks, and which elements each rank has, found element by
// element.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "parallel/flat_shard.h"

namespace rondo {

// `parts` along `dim`, of each of `blocks`, and `shards` of each; the parts vary fastest over the
// ranks.
struct Shares {
  int dim = 0;
  std::int64_t parts = 1, shards = 1, blocks = 1;

  std::int64_t ranks() const { return parts * shards; }
  FlatShard of(const Sizes& sizes, std::int64_t rank) const {
    return {sizes, {dim, parts, rank % parts, blocks}, shards, rank / parts};
  }
  std::string name() const {
    return fmt::format("{} parts along {} of {} blocks, {} shards of each", parts, dim, blocks, shards);
  }
};

// The place in the shard and in the flattened parameter of each element that the rank has.
inline std::vector<std::pair<std::int64_t, std::int64_t>> elements_at(const Sizes& sizes,
                                                                      const Shares& shares,
                                                                      std::int64_t rank) {
  const auto dim = static_cast<std::size_t>(shares.dim);
  const std::int64_t size = shares.parts == 1 ? 1 : sizes[dim];
  const std::int64_t blocks = shares.parts == 1 ? 1 : shares.blocks, block = size / blocks;
  const std::int64_t inner = shares.parts == 1
                                 ? element_count(sizes)
                                 : element_count(Sizes(sizes.begin() + shares.dim + 1, sizes.end()));
  const std::int64_t outer = size * inner == 0 ? 0 : element_count(sizes) / (size * inner) * blocks;
  const std::int64_t part_size = (block + shares.parts - 1) / shares.parts;
  const std::int64_t shard_size = (outer * part_size * inner + shares.shards - 1) / shares.shards;
  const std::int64_t part = rank % shares.parts, shard = rank / shares.parts;
  std::vector<std::pair<std::int64_t, std::int64_t>> elements;
  std::int64_t in_whole = 0;
  for (std::int64_t i = 0; i < outer; ++i)
    for (std::int64_t j = 0; j < block; ++j)
      for (std::int64_t k = 0; k < inner; ++k, ++in_whole) {
        if (j / part_size != part) continue;
        const std::int64_t in_part = (i * part_size + j % part_size) * inner + k;
        if (in_part / shard_size == shard) elements.push_back({in_part % shard_size, in_whole});
      }
  return elements;
}

inline std::int64_t below(std::mt19937_64& random, std::int64_t bound) {
  return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(bound));
}

inline Sizes random_sizes(std::mt19937_64& random, std::int64_t most) {
  Sizes sizes;
  for (std::int64_t i = 0, dims = 1 + below(random, 4); i < dims; ++i)
    sizes.push_back(below(random, most + 1));
  return sizes;
}

// Equal parts where `equal` or along a later dimension than the first.
inline Shares random_shares(std::mt19937_64& random, const Sizes& sizes, bool equal) {
  Shares shares{static_cast<int>(below(random, std::ssize(sizes))), 1 + below(random, 6),
                1 + below(random, 5)};
  const std::int64_t size = sizes[static_cast<std::size_t>(shares.dim)];
  if (shares.dim > 0 && size % 2 == 0) shares.blocks = 1 + below(random, 2);
  while ((equal || shares.dim > 0) && size / shares.blocks % shares.parts != 0) --shares.parts;
  return shares;
}

}  // namespace rondo
