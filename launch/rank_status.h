// Who held the others up: ranks compared by where they stood when one of them gave the others up.
//
// A rank that waits for others holds nobody up: one that is stopped, or stands still elsewhere, does. Without
// a pipeline all ranks call the same collectives in the same order, so numbers of calls compare between any
// two. Stages of a pipeline call different ones, and only steps compare. Where all wait and one of them for a
// message, its edge ("pp_0_to_1") says for which rank, and that one may wait for another: the last is named.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "launch/rendezvous/messages.h"
#include "support/watch/progress.h"

namespace rondo::launch {

// `pid`: of the rank's process, alive or not. `ended`: with exit code 0. `still_s`: for how long the rank has
// noted nothing.
RankStatus rank_status_of(int rank, pid_t pid, bool ended, const progress::Seen& seen, double still_s);

// The first is the likeliest to hold the others up, the last the least.
void sort_by_progress(std::vector<RankStatus>& statuses);

struct HangCulprit {
  RankStatus status;
  std::string text;  // "rank 1 holds the others up: ..."
};
// Nothing where all ranks stand at the same place, or where the one behind has not stood still.
std::optional<HangCulprit> find_hang_culprit(std::vector<RankStatus> statuses);

}  // namespace rondo::launch
