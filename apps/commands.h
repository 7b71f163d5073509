// The subcommands of `rondo`, one function and one source file each. None of them may include LibTorch: what
// needs it is a subcommand of `rondo-worker`, which `rondo` execs.
//
// `args` are the words after the subcommand. Returns the exit code; throws rondo::Error for what the user
// should read.
#pragma once

#include <string>
#include <vector>

#include "support/flags/flags.h"

namespace rondo {

using Arguments = std::vector<std::string>;

int run_checkpoint(const Arguments& args);  // lists, shows, verifies and prunes checkpoints
int run_completion(const Arguments& args);  // completion for a shell
int run_compare(const Arguments& args);     // 0 equal bit for bit, 1 different
int run_config(const Arguments& args);      // checks or prints a configuration
int run_data(const Arguments& args);        // token files: tokenize, inspect
int run_doctor(const Arguments& args);      // 0 where training on CPU can work, else 6
int run_help(const Arguments& args);        // sections and keys of the configuration
int run_launch(const Arguments& args);      // torchrun's part
int run_opt(const Arguments& args);         // passes on the text of a graph
int run_pipeline(const Arguments& args);    // a pipeline schedule, proven, timed and drawn
int run_prove(const Arguments& args);       // layouts of ranks against one rank
int run_report(const Arguments& args);      // runs as a page of HTML, or as plots of text
int run_top(const Arguments& args);         // a run while it trains
int run_version(const Arguments& args);

// What all commands declare, `rondo` itself first: for completion and the manual page.
std::vector<CommandSpec> all_commands();

// These run before `rondo-worker` is started. False: all is done already (--help).
bool before_convert(const Arguments& args);
bool before_eval(const Arguments& args);
bool before_generate(const Arguments& args);
bool before_logits(const Arguments& args);
bool before_plan(const Arguments& args);
bool before_train(const Arguments& args);
bool before_tune(const Arguments& args);

}  // namespace rondo
