// The one error type of the program, and the exit codes that users and schedulers see.
//
// Whose fault decides how it is reported: a user's mistake or the machine's failure is an `Error` with the
// exit code it ends in and one clear line (place, key, value, rule, next action); our own bugs are
// `RONDO_ASSERT`, exit 1.
#pragma once

#include <stdexcept>
#include <string>

namespace rondo {

enum class ExitCode : int {
  ok = 0,
  internal = 1,  // a bug of ours
  usage = 2,     // a flag or a subcommand
  config = 3,    // a key or a value of the configuration
  data = 4,      // data files, tokenizer
  checkpoint = 5,
  environment = 6,  // LibTorch, ports, environment variables, the folder of the run
  peer = 7,         // another rank, communication, a hang
  numerics = 8,     // a step that is not finite
  resources = 9,    // disk, memory, file descriptors
  graph = 10,       // trace, passes, executor
  requeue = 75,     // saved, please requeue
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

// For what only a bug of ours can break. `what` may be any expression that makes a std::string.
#define RONDO_ASSERT(condition, what)                                                  \
  do {                                                                                 \
    if (!(condition)) ::rondo::assertion_failed(#condition, __FILE__, __LINE__, what); \
  } while (false)
