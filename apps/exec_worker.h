// Hands a subcommand to rondo-worker, the executable beside this one that links LibTorch.
#pragma once

#include <string>
#include <vector>

namespace rondo {

// Execs rondo-worker with these words. Throws Error(environment) where it cannot be started.
[[noreturn]] void exec_worker(const std::vector<std::string>& words);

}  // namespace rondo
