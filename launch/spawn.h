// One child process: fork and exec from a process with one thread.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace rondo::launch {

struct Spawn {
  std::vector<std::string> program;      // program[0] is a path with a slash, see find_program
  std::vector<std::string> environment;  // NAME=value, all of them
  int out_fd = -1, error_fd = -1;        // -1: the launcher's
  std::vector<int> inherited_fds;        // stay open in the child
};

// The child leads a new process group, reads /dev/null, has default signal handling and is killed when this
// process ends. Throws Error(environment) when the program cannot be executed, Error(resources) when there is
// no room for it.
pid_t spawn(const Spawn& child);

// The path of a program as execvp would find it. Throws Error(environment) where there is none.
std::string find_program(const std::string& name);

// This process's environment without the variables that `set` names, and with them.
std::vector<std::string> environment_with(const std::vector<std::string>& set);

}  // namespace rondo::launch
