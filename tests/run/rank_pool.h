// Ranks that stay alive and play one run after the other, as processes of their own that meet anew each time.
// Most runs of the tests are tiny: starting LibTorch would cost more than their steps. That a process can do
// this at all says that a run takes nothing with it into the next one and leaves nothing behind.
#pragma once

#include <string>
#include <vector>

#include "apps/run_program.h"

namespace rondo {

// What `rondo launch --nproc-per-node RANKS -- train FLAGS` would do, without the launcher. The first call
// for a number of ranks starts them; a run that fails ends them. The output is that of all ranks, one after
// the other; the exit code the first rank's that is not 0.
ProgramResult play(int ranks, const std::vector<std::string>& flags);

}  // namespace rondo
