// Finds the rank that hangs a job: compares the progress of all ranks at the time one of them
// failed.
//
// A rank that waits for others is not the culprit. A rank that is stopped, or makes no progress
// elsewhere, is. Without a pipeline all ranks call the same collectives in the same order, so
// numbers of calls compare between any two ranks. Stages of a pipeline call different collectives,
// so only steps compare. If all ranks wait and one of them waits for a message, the edge
// ("pp_0_to_1") names the awaited rank. That rank may wait for another one; the last in the chain
// is reported.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "launch/rendezvous/messages.h"
#include "support/watch/progress.h"

namespace rondo::launch {

// Returns whether a signal or a debugger has stopped the process.
bool is_stopped(pid_t pid);

// `pid`: the rank's process, alive or not. `ended`: it ended with exit code 0. `still_s`: seconds
// since the rank's last note.
RankStatus rank_status_of(int rank, pid_t pid, bool ended, const progress::Seen& seen, double still_s);

// Sorts the likeliest culprit first, the least likely last.
void sort_by_progress(std::vector<RankStatus>& statuses);

struct HangCulprit {
  RankStatus status;
  std::string text;  // "rank 1 blocks the others: ..."
};
// Returns nullopt if all ranks are at the same place, or if the one behind has made progress
// recently.
std::optional<HangCulprit> find_hang_culprit(std::vector<RankStatus> statuses);

}  // namespace rondo::launch
