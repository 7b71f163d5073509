// Runs a subcommand in rondo-worker, the executable in the same folder that links LibTorch.
#pragma once

#include <string>
#include <vector>

namespace rondo {

// Execs rondo-worker with these words. Throws Error(environment) if it cannot start.
[[noreturn]] void exec_worker(const std::vector<std::string>& words);

}  // namespace rondo
