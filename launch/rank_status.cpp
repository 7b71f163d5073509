#include "launch/rank_status.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <regex>
#include <tuple>

namespace rondo::launch {
namespace {

constexpr double kNoProgress_s = 0.5;

// Returns the other rank of the message that this rank waits for: "receive 3 of group pp_0_to_1"
// waits for rank 0.
std::optional<int> awaited_rank(const RankStatus& status) {
  static const std::regex kMessage("(send|receive) [0-9]+ of group pp_([0-9]{1,9})_to_([0-9]{1,9})");
  std::smatch parts;
  if (!std::regex_match(status.collective, parts, kMessage)) return std::nullopt;
  return std::stoi(parts[parts[1] == "send" ? 3 : 2]);
}

bool in_pipeline(const std::vector<RankStatus>& statuses) {
  return std::any_of(statuses.begin(), statuses.end(),
                     [](const RankStatus& status) { return awaited_rank(status).has_value(); });
}

auto progress_of(const RankStatus& status, bool calls_compare) {
  return std::make_tuple(!status.stopped, status.waits, status.step, calls_compare ? status.calls : 0);
}

// Follows the chain of awaited ranks from the first status and moves its end to the front. The
// chain ends at a rank that waits for no message, is not in `statuses`, or was visited before.
void move_awaited_first(std::vector<RankStatus>& statuses) {
  auto first = statuses.begin();
  for (std::size_t hops = 1; hops < statuses.size() && first->waits && !first->stopped; ++hops) {
    const std::optional<int> awaited = awaited_rank(*first);
    const auto next = std::find_if(statuses.begin(), statuses.end(),
                                   [&](const RankStatus& status) { return status.rank == awaited; });
    if (next == statuses.end()) break;
    first = next;
  }
  std::rotate(statuses.begin(), first, first + 1);
}

}  // namespace

// The state in /proc/PID/stat follows the name in parentheses, which may hold any character.
bool is_stopped(pid_t pid) {
  std::string line;
  std::getline(std::ifstream(fmt::format("/proc/{}/stat", pid)), line);
  const std::size_t name_ends = line.rfind(')');
  return name_ends != std::string::npos &&
         (line.substr(name_ends, 3) == ") T" || line.substr(name_ends, 3) == ") t");
}

RankStatus rank_status_of(int rank, pid_t pid, bool ended, const progress::Seen& seen, double still_s) {
  // A rank that is back in its initial state has done all its steps.
  const bool has_finished = ended && seen.doing != progress::Doing::starting;
  const bool stopped = !ended && is_stopped(pid);
  const std::string prefix = has_finished ? "ended with exit code 0, "
                             : stopped    ? "stopped by a signal, "
                                          : "";
  return {.rank = rank,
          .step = seen.step,
          .calls = seen.calls,
          .stopped = has_finished || stopped,
          .waits = seen.waits,
          .still_s = still_s,
          .where = prefix + where(seen),
          .collective = seen.collective,
          .module = seen.module};
}

void sort_by_progress(std::vector<RankStatus>& statuses) {
  const bool pipeline = in_pipeline(statuses);
  std::stable_sort(statuses.begin(), statuses.end(), [&](const RankStatus& a, const RankStatus& b) {
    return std::tuple_cat(progress_of(a, !pipeline), std::tie(a.collective)) <
           std::tuple_cat(progress_of(b, !pipeline), std::tie(b.collective));
  });
  if (pipeline) move_awaited_first(statuses);
}

std::optional<HangCulprit> find_hang_culprit(std::vector<RankStatus> statuses) {
  if (statuses.size() < 2) return std::nullopt;
  sort_by_progress(statuses);
  const bool pipeline = in_pipeline(statuses);
  const RankStatus &slowest = statuses.front(), &fastest = statuses.back();
  if (slowest.still_s < kNoProgress_s && !slowest.stopped) return std::nullopt;
  const bool all_wait = slowest.waits && !slowest.stopped;
  if (progress_of(slowest, !pipeline) == progress_of(fastest, !pipeline) &&
      (!all_wait || slowest.collective == fastest.collective))
    return std::nullopt;
  return HangCulprit{
      slowest,
      fmt::format("{} for {:.1f} s at step {}, {}; rank {} is at step {}, {}",
                  all_wait ? fmt::format("ranks wait for {}: rank {} has made no progress",
                                         pipeline ? "each other" : "different collectives", slowest.rank)
                           : fmt::format("rank {} blocks the others: it has made no progress", slowest.rank),
                  slowest.still_s, slowest.step, slowest.where, fastest.rank, fastest.step, fastest.where)};
}

}  // namespace rondo::launch
