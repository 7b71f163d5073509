// The subcommands of `rondo`, one function and one source file each. None of them may include LibTorch: what
// needs it is a subcommand of `rondo-worker`, which `rondo` execs.
//
// `args` are the words after the subcommand. Returns the exit code; throws rondo::Error for what the user
// should read.
#pragma once

#include <string>
#include <vector>

namespace rondo {

using Arguments = std::vector<std::string>;

int run_opt(const Arguments& args);

}  // namespace rondo
