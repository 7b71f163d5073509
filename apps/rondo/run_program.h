// Runs a program with a time limit and captures its output.
#pragma once

#include <string>
#include <vector>

namespace rondo {

struct ProgramResult {
  bool started = false;
  bool timed_out = false;  // killed at the time limit
  int exit_code = 0;       // 128 + n if signal n ended it
  std::string output;      // stdout and stderr together, the first 256 KiB
};

// Runs `argv`, whose first element is a path, with stdin from /dev/null. If it does not start,
// `output` has the reason.
ProgramResult run_program(const std::vector<std::string>& argv, int timeout_ms);

}  // namespace rondo
