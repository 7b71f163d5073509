// Where the rows of an exchange lie in its two orders (ops/all_to_all_tokens/all_to_all_tokens.h), worked out on the host from counts.
#pragma once

#include <cstdint>
#include <vector>

namespace rondo {

// Rows that lie together in both orders, by rank and by expert.
struct AllToAllRun {
  std::int64_t by_rank = 0, by_expert = 0, rows = 0;
};

// Counts by rank and then by expert. By expert there is room for so many rows: what comes behind is left out.
std::vector<AllToAllRun> all_to_all_runs(const std::int32_t* counts, std::int64_t ranks, std::int64_t experts,
                                         std::int64_t room);

// The sum of each rank's counts, as an all-to-all wants it.
std::vector<std::int64_t> rows_by_rank(const std::int32_t* counts, std::int64_t ranks, std::int64_t experts);

std::int64_t sum(const std::vector<std::int64_t>& numbers);

}  // namespace rondo
