// The subcommands that need LibTorch. commands.h has the others.
#pragma once

#include <string>
#include <vector>

namespace rondo {

// Trains as one rank of a run. `args`: the words after `train`; `command_line`: all words, for the
// run folder.
int run_train(const std::vector<std::string>& args, const std::vector<std::string>& command_line);

// Traces the step of a configuration. `args`: the words after `config check`.
int run_check(const std::vector<std::string>& args);

// Continues a text. `args`: the words after `generate`.
int run_generate(const std::vector<std::string>& args);

// Computes loss and perplexity of a stored model on data. `args`: the words after `eval`.
int run_eval(const std::vector<std::string>& args);

// Writes logits and gradients of a stored model. `args`: the words after `logits`.
int run_logits(const std::vector<std::string>& args);

// Converts weights between checkpoints and Hugging Face folders. `args`: the words after `convert`.
int run_convert(const std::vector<std::string>& args);

// Runs jobs for `rondo prove`. `args`: the socket that sends them.
int run_play(const std::vector<std::string>& args);

// Estimates memory and speed of a job. `args`: the words after `plan`.
int run_plan(const std::vector<std::string>& args);

// Measures the matrix products of a job. `args`: the words after `tune`.
int run_tune(const std::vector<std::string>& args);

}  // namespace rondo
