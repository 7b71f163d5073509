// fork and execve, with a close-on-exec pipe that carries errno back. exec closes the pipe, so an
// empty read means success. Arguments are laid out before the fork. Both processes call setpgid:
// either may run first, and the group must exist before it is signalled. The child requests the
// death signal before it compares its parent. So the parent cannot die unnoticed in between.
#include "launch/spawn.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "launch/rendezvous/net.h"
#include "support/error.h"

namespace rondo::launch {
namespace {

std::vector<char*> pointers(const std::vector<std::string>& words) {
  std::vector<char*> result;
  for (const std::string& word : words) result.push_back(const_cast<char*>(word.c_str()));
  result.push_back(nullptr);
  return result;
}

// Turns the child into the program. On failure it writes errno to `report` and exits.
[[noreturn]] void become(const Spawn& child, char** argv, char** envp, pid_t parent, int report) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);  // it died before the line above
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGPIPE, SIGCHLD, SIGXFSZ})
    ::signal(signal, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  const int null = open("/dev/null", O_RDONLY);
  dup2(null, 0);
  close(null);
  if (child.out_fd >= 0) dup2(child.out_fd, 1);
  if (child.error_fd >= 0) dup2(child.error_fd, 2);
  for (const int fd : child.inherited_fds) fcntl(fd, F_SETFD, 0);
  execve(argv[0], argv, envp);
  const int failure = errno;
  [[maybe_unused]] const ssize_t written = write(report, &failure, sizeof failure);
  _exit(127);
}

}  // namespace

pid_t spawn(const Spawn& child) {
  std::vector<char*> argv = pointers(child.program);
  std::vector<char*> envp = pointers(child.environment);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    throw Error(ExitCode::resources,
                std::string("cannot create a pipe: ") + std::strerror(errno) + "; raise `ulimit -n`");
  Fd report_in(ends[0]), report_out(ends[1]);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0)
    throw Error(ExitCode::resources,
                fmt::format("cannot create a process: {}; raise `ulimit -u`", std::strerror(errno)));
  if (pid == 0) become(child, argv.data(), envp.data(), parent, report_out.get());
  setpgid(pid, pid);  // here, too: the group must exist before it is signalled
  report_out.reset();
  int failure = 0;
  ssize_t got;
  do got = read(report_in.get(), &failure, sizeof failure);
  while (got < 0 && errno == EINTR);
  if (got == 0) return pid;  // exec closed the pipe
  waitpid(pid, nullptr, 0);
  throw Error(ExitCode::environment,
              fmt::format("cannot start {}: {}", child.program[0], std::strerror(failure)));
}

std::string find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) {
    if (access(name.c_str(), X_OK) == 0) return name;
    throw Error(ExitCode::environment, fmt::format("cannot start {}: {}", name, std::strerror(errno)));
  }
  const char* path = std::getenv("PATH");
  std::istringstream folders(path ? path : "/usr/local/bin:/usr/bin:/bin");
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string candidate = (folder.empty() ? "." : folder) + "/" + name;
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  throw Error(ExitCode::environment,
              fmt::format("cannot start {}: no such program in PATH; give its path, e.g. ./{}", name, name));
}

std::vector<std::string> environment_with(const std::vector<std::string>& set) {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view old = *variable;
    const std::string_view name = old.substr(0, old.find('='));
    const bool replaced = std::any_of(set.begin(), set.end(), [&](const std::string& entry) {
      return std::string_view(entry).substr(0, entry.find('=')) == name;
    });
    if (!replaced) variables.emplace_back(old);
  }
  variables.insert(variables.end(), set.begin(), set.end());
  return variables;
}

}  // namespace rondo::launch
