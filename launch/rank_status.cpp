#include "launch/rank_status.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <regex>
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

// The other rank of the message that this one waits for: "receive 3 of group pp_0_to_1" waits for rank 0.
std::optional<int> awaited_by(const RankStatus& status) {
  static const std::regex kMessage("(send|receive) [0-9]+ of group pp_([0-9]{1,9})_to_([0-9]{1,9})");
  std::smatch parts;
  if (!std::regex_match(status.collective, parts, kMessage)) return std::nullopt;
  return std::stoi(parts[parts[1] == "send" ? 3 : 2]);
}

bool in_pipeline(const std::vector<RankStatus>& statuses) {
  return std::any_of(statuses.begin(), statuses.end(),
                     [](const RankStatus& one) { return awaited_by(one).has_value(); });
}

auto place_of(const RankStatus& status, bool calls_compare) {
  return std::make_tuple(!status.stopped, status.waits, status.step, calls_compare ? status.calls : 0);
}

// From a rank that waits for a message to the one that it waits for, and on, until one waits for no message,
// is not among these, or was met before.
void put_awaited_first(std::vector<RankStatus>& statuses) {
  auto first = statuses.begin();
  for (std::size_t hops = 1; hops < statuses.size() && first->waits && !first->stopped; ++hops) {
    const std::optional<int> awaited = awaited_by(*first);
    const auto next = std::find_if(statuses.begin(), statuses.end(),
                                   [&](const RankStatus& one) { return one.rank == awaited; });
    if (next == statuses.end()) break;
    first = next;
  }
  std::rotate(statuses.begin(), first, first + 1);
}

}  // namespace

RankStatus rank_status_of(int rank, pid_t pid, bool ended, const progress::Seen& seen, double still_s) {
  // Back where it started, it has done all its steps.
  const bool gone = ended && seen.doing != progress::Doing::starting;
  const bool stopped = !ended && is_stopped(pid);
  const std::string how = gone ? "ended with exit code 0, " : stopped ? "stopped by a signal, " : "";
  return {rank,    seen.step,         seen.calls,      gone || stopped, seen.waits,
          still_s, how + where(seen), seen.collective, seen.module};
}

void sort_by_progress(std::vector<RankStatus>& statuses) {
  const bool pipeline = in_pipeline(statuses);
  std::stable_sort(statuses.begin(), statuses.end(), [&](const RankStatus& a, const RankStatus& b) {
    return std::tuple_cat(place_of(a, !pipeline), std::tie(a.collective)) <
           std::tuple_cat(place_of(b, !pipeline), std::tie(b.collective));
  });
  if (pipeline) put_awaited_first(statuses);
}

std::optional<HangCulprit> find_hang_culprit(std::vector<RankStatus> statuses) {
  if (statuses.size() < 2) return std::nullopt;
  sort_by_progress(statuses);
  const bool pipeline = in_pipeline(statuses);
  const RankStatus &behind = statuses.front(), &ahead = statuses.back();
  if (behind.still_s < kStandsStill_s && !behind.stopped) return std::nullopt;
  const bool all_wait = behind.waits && !behind.stopped;
  if (place_of(behind, !pipeline) == place_of(ahead, !pipeline) &&
      (!all_wait || behind.collective == ahead.collective))
    return std::nullopt;
  return HangCulprit{
      behind,
      fmt::format("{} for {:.1f} s at step {}, {}; rank {} is at step {}, {}",
                  all_wait ? fmt::format("ranks wait for {}: rank {} has stood still",
                                         pipeline ? "each other" : "different collectives", behind.rank)
                           : fmt::format("rank {} holds the others up: it has stood still", behind.rank),
                  behind.still_s, behind.step, behind.where, ahead.rank, ahead.step, ahead.where)};
}

}  // namespace rondo::launch
