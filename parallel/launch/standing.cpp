#include "parallel/launch/standing.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <tuple>

namespace rondo::launch {
namespace {

constexpr double kStandsStill_s = 0.5;

// The state in /proc/PID/stat stands behind the name, which may hold any character.
bool is_stopped(pid_t pid) {
  std::string line;
  std::getline(std::ifstream(fmt::format("/proc/{}/stat", pid)), line);
  const std::size_t name_ends = line.rfind(')');
  return name_ends != std::string::npos &&
         (line.substr(name_ends, 3) == ") T" || line.substr(name_ends, 3) == ") t");
}

auto place_of(const Standing& standing) {
  return std::make_tuple(!standing.stopped, standing.waits, standing.step, standing.calls);
}

}  // namespace

Standing standing_of(int rank, pid_t pid, bool ended, const progress::Seen& seen, double still_s) {
  // Back where it started, it has done all its steps.
  const bool gone = ended && seen.doing != progress::Doing::starting;
  const bool stopped = !ended && is_stopped(pid);
  const std::string how = gone ? "ended with exit code 0, " : stopped ? "stopped by a signal, " : "";
  return {rank,    seen.step,         seen.calls,      gone || stopped, seen.waits,
          still_s, how + where(seen), seen.collective, seen.module};
}

void sort_by_progress(std::vector<Standing>& standings) {
  std::stable_sort(standings.begin(), standings.end(), [](const Standing& a, const Standing& b) {
    return std::tuple_cat(place_of(a), std::tie(a.collective)) <
           std::tuple_cat(place_of(b), std::tie(b.collective));
  });
}

std::optional<Holdup> find_holdup(std::vector<Standing> standings) {
  if (standings.size() < 2) return std::nullopt;
  sort_by_progress(standings);
  const Standing &behind = standings.front(), &ahead = standings.back();
  if (behind.still_s < kStandsStill_s && !behind.stopped) return std::nullopt;
  const bool all_wait = behind.waits && !behind.stopped;
  if (place_of(behind) == place_of(ahead) && (!all_wait || behind.collective == ahead.collective))
    return std::nullopt;
  return Holdup{
      behind,
      fmt::format(
          "{} for {:.1f} s at step {}, {}; rank {} is at step {}, {}",
          all_wait ? fmt::format("ranks wait for different collectives: rank {} has stood still", behind.rank)
                   : fmt::format("rank {} holds the others up: it has stood still", behind.rank),
          behind.still_s, behind.step, behind.where, ahead.rank, ahead.step, ahead.where)};
}

}  // namespace rondo::launch
