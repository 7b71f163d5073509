// Keeps ranks alive between runs, since most runs of the tests are tiny (launch/rank_pool.h).
#pragma once

#include <string>
#include <vector>

#include "apps/rondo/run_program.h"

namespace rondo {

// Runs a job in a pool that has as many ranks at least; one rank has a pool, and all cores, of its
// own. The first call starts the pool; a failed run ends it.
ProgramResult play(int ranks, const std::vector<std::string>& flags);

}  // namespace rondo
