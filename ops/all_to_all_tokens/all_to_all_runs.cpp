#include "ops/all_to_all_tokens/all_to_all_runs.h"

#include <algorithm>
#include <numeric>

namespace rondo {

std::vector<AllToAllRun> all_to_all_runs(const std::int32_t* counts, std::int64_t ranks, std::int64_t experts,
                                         std::int64_t room) {
  std::vector<AllToAllRun> runs(static_cast<std::size_t>(ranks * experts));
  std::int64_t at = 0;
  for (std::int64_t i = 0; i < ranks * experts; ++i) {
    runs[static_cast<std::size_t>(i)].by_rank = at;
    at += counts[i];
  }
  at = 0;
  for (std::int64_t expert = 0; expert < experts; ++expert)
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      const std::int64_t count = counts[rank * experts + expert];
      AllToAllRun& run = runs[static_cast<std::size_t>(rank * experts + expert)];
      run.by_expert = at;
      run.rows = std::clamp<std::int64_t>(room - at, 0, count);
      at += count;
    }
  return runs;
}

std::vector<std::int64_t> rows_by_rank(const std::int32_t* counts, std::int64_t ranks, std::int64_t experts) {
  std::vector<std::int64_t> sums;
  for (std::int64_t rank = 0; rank < ranks; ++rank, counts += experts)
    sums.push_back(std::accumulate(counts, counts + experts, std::int64_t{0}));
  return sums;
}

std::int64_t sum(const std::vector<std::int64_t>& numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), std::int64_t{0});
}

}  // namespace rondo
