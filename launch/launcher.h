// One node's part of `rondo launch`: joins the job, runs this node's ranks as node 0 directs, and
// returns their exit code.
//
// One thread and one poll loop. Only a name look-up may block. See coordinator.h for node 0's part.
#pragma once

#include "launch/options.h"

namespace rondo::launch {

// Returns the exit code: the code of the first rank that failed, or 128 + n if signal n killed it.
// 0: all ranks succeeded. 75: the ranks request a requeue. 6: a port is in use. 7: a node was lost.
// Throws Error for failures before that.
int run(const LaunchOptions& options);

}  // namespace rondo::launch
