// Starts one child process: fork and exec from a process with one thread.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace rondo::launch {

struct Spawn {
  std::vector<std::string> program;      // program[0] is a path with a slash, see find_program
  std::vector<std::string> environment;  // the whole environment, as NAME=value
  int out_fd = -1, error_fd = -1;        // -1: the launcher's
  std::vector<int> inherited_fds;        // stay open in the child
};

// Starts the child in a new process group, with stdin from /dev/null and default signal handling.
// The child is killed when this process ends. Throws Error(environment) if the program cannot be
// executed, Error(resources) if no process can be created.
pid_t spawn(const Spawn& child);

// Returns the path that execvp would execute. Throws Error(environment) if there is none.
std::string find_program(const std::string& name);

// Returns this process's environment with the variables in `set` replaced or added.
std::vector<std::string> environment_with(const std::vector<std::string>& set);

}  // namespace rondo::launch
