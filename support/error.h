// The only error type of the program, and the exit codes for users and schedulers.
//
// Errors by users and failures of the machine throw an `Error` with an exit code and one line:
// place, key, value, rule and next action. Bugs of the program fail a `RONDO_ASSERT` and end with
// exit code 1.
#pragma once

#include <stdexcept>
#include <string>

namespace rondo {

enum class ExitCode : int {
  ok = 0,
  internal = 1,  // a bug of the program
  usage = 2,     // a flag or a subcommand
  config = 3,    // a key or a value of the configuration
  data = 4,      // data files, tokenizer
  checkpoint = 5,
  environment = 6,  // LibTorch, ports, environment variables, the run folder
  peer = 7,         // another rank, communication, a hang
  numerics = 8,     // a non-finite step
  resources = 9,    // disk, memory, file descriptors
  graph = 10,       // trace, passes, executor
  requeue = 75,     // saved, requests a requeue
  do_not_requeue = 93,
};

class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

[[noreturn]] void assertion_failed(const char* expression, const char* file, int line,
                                   const std::string& what);

}  // namespace rondo

// Checks a condition that only a bug can break. `what` is any expression of type std::string.
#define RONDO_ASSERT(condition, what)                                                  \
  do {                                                                                 \
    if (!(condition)) ::rondo::assertion_failed(#condition, __FILE__, __LINE__, what); \
  } while (false)
