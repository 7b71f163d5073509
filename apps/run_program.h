// Runs another program to its end, with a time limit, and keeps what it said.
#pragma once

#include <string>
#include <vector>

namespace rondo {

struct ProgramResult {
  bool started = false;
  bool timed_out = false;  // it was killed
  int exit_code = 0;       // 128 + n where signal n ended it
  std::string output;      // stdout and stderr together, the first 64 KiB
};

// `argv[0]` is a path; stdin is /dev/null. Not started: `output` holds the reason.
ProgramResult run_program(const std::vector<std::string>& argv, int timeout_ms);

}  // namespace rondo
