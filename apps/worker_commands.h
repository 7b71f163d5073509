// The subcommands that need LibTorch. See commands.h for the others.
#pragma once

#include <string>
#include <vector>

namespace rondo {

// One rank of a run. `args`: the words after `train`; `command_line`: all words, for the run folder.
int run_train(const std::vector<std::string>& args, const std::vector<std::string>& command_line);

// Logits, and gradients, of a Hugging Face model. `args`: the words after `logits`.
int run_logits(const std::vector<std::string>& args);

// Weights between checkpoints and Hugging Face folders. `args`: the words after `convert`.
int run_convert(const std::vector<std::string>& args);

// What a job will take and how fast it may be. `args`: the words after `plan`.
int run_plan(const std::vector<std::string>& args);

}  // namespace rondo
