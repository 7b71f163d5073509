// Keeps ranks alive between runs, since most runs of the tests are tiny (launch/rank_pool.h).
#pragma once

#include <string>
#include <vector>

#include "apps/rondo/run_program.h"

namespace rondo {

// Runs a job in the pool for its number of ranks. The first call for a number starts the pool; a
// failed run ends it.
ProgramResult play(int ranks, const std::vector<std::string>& flags);

}  // namespace rondo
