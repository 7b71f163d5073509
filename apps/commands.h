// The subcommands of `rondo`, one function and one source file each. They include no LibTorch;
// subcommands that need it run in `rondo-worker`, which `rondo` execs.
//
// `args` are the words after the subcommand. Each function returns the exit code and throws
// rondo::Error with a message for the user.
#pragma once

#include <string>
#include <vector>

#include "support/flags/flags.h"

namespace rondo {

using Arguments = std::vector<std::string>;

int run_checkpoint(const Arguments& args);  // lists, shows, verifies and prunes checkpoints
int run_completion(const Arguments& args);  // prints a shell completion script
int run_compare(const Arguments& args);     // returns 0 if runs are bitwise equal, 1 if not
int run_config(const Arguments& args);      // checks or prints a configuration
int run_data(const Arguments& args);        // tokenizes text and inspects token files
int run_doctor(const Arguments& args);      // returns 0 if training on CPU can work, else 6
int run_help(const Arguments& args);        // prints sections and keys of the configuration
int run_launch(const Arguments& args);      // runs the ranks of a node, as torchrun
int run_opt(const Arguments& args);         // runs passes on the text of a graph
int run_pipeline(const Arguments& args);    // proves, times and draws a pipeline schedule
int run_prove(const Arguments& args);       // compares layouts of ranks with one rank
int run_report(const Arguments& args);      // writes runs as an HTML page or as text plots
int run_top(const Arguments& args);         // watches a run while it trains
int run_version(const Arguments& args);

int run_data_tokenize(const Arguments& args);  // the subcommands of `rondo data`
int run_data_inspect(const Arguments& args);

// Execs rondo-worker, the executable in the same folder that links LibTorch, with these words.
// Throws Error(environment) if it cannot start.
[[noreturn]] void exec_worker(const Arguments& words);

// Returns the declarations of all commands, `rondo` first, for completion and the manual page.
std::vector<CommandSpec> all_commands();
// Returns the manual page as man(7) source: a part per command, then one per section of the
// configuration.
std::string manual_page(const std::vector<CommandSpec>& commands);

// Run before `rondo-worker` starts. Return false if nothing is left to do (--help).
bool before_convert(const Arguments& args);
bool before_eval(const Arguments& args);
bool before_generate(const Arguments& args);
bool before_logits(const Arguments& args);
bool before_plan(const Arguments& args);
bool before_train(const Arguments& args);
bool before_tune(const Arguments& args);

}  // namespace rondo
