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

// Two run folders side by side: equal bit for bit (0), different (1), or an error.
int compare(const Arguments& args);
// What is installed, what is missing, what to type. 0 where training on CPU can work, else 6.
int doctor(const Arguments& args);
int run_launch(const Arguments& args);
// Checks or prints a configuration.
int config(const Arguments& args);
// Sections and keys of the configuration.
int help(const Arguments& args);

// Runs before `rondo-worker train` is started. False: all is done already (--help).
bool before_train(const Arguments& args);
int run_opt(const Arguments& args);

}  // namespace rondo
