// Most runs of the tests are tiny: their ranks stay alive between them (launch/rank_pool.h).
#pragma once

#include <string>
#include <vector>

#include "apps/run_program.h"

namespace rondo {

// A pool for each number of ranks. The first call for a number starts it; a run that fails ends it.
ProgramResult play(int ranks, const std::vector<std::string>& flags);

}  // namespace rondo
