// One node's part of `rondo launch`: meets the other nodes, runs this node's ranks as node 0 says, ends with
// their code.
//
// One thread and one poll loop; nothing here blocks for longer than a name look-up. See coordinator.h for
// node 0's part.
#pragma once

#include "launch/options.h"

namespace rondo::launch {

// Returns the exit code: that of the first rank that failed, 128 + n where signal n killed it; 0 when all
// ended well; 75 when they ask to be requeued; 6 where a port is taken; 7 when a node was lost. Throws Error
// for what ends it before.
int run(const LaunchOptions& options);

}  // namespace rondo::launch
