#include "tests/run/rank_pool.h"

#include <algorithm>
#include <map>

#include "launch/rank_pool.h"

namespace rondo {

ProgramResult play(int ranks, const std::vector<std::string>& flags) {
  constexpr std::chrono::seconds kTimeout{300};  // against a hang, far above what a run takes
  static std::map<int, launch::RankPool> pools;
  const int size = ranks == 1 ? 1 : std::max(ranks, 4);
  const auto pool = pools.try_emplace(size, RONDO_BINARY_DIR "/rondo-worker", size).first;
  const launch::PlayedRun run = pool->second.play(ranks, flags, kTimeout);
  if (run.timed_out || run.exit_code != 0) pools.erase(pool);
  return {/*started=*/true, run.timed_out, run.exit_code, run.output};
}

}  // namespace rondo
