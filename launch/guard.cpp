#include "launch/guard.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <set>

#include "support/error.h"

namespace rondo::launch {
namespace {

// Reads process groups from the pipe: a positive number registers, a negative one unregisters.
[[noreturn]] void run_guard(int pipe, const std::string& private_folder) {
  setsid();  // no signals from the terminal
  sigset_t signals;
  sigfillset(&signals);
  sigprocmask(SIG_SETMASK, &signals, nullptr);
  const int dev_null = open("/dev/null", O_RDWR);
  for (int fd = 0; fd < 3; ++fd) dup2(dev_null, fd);
  dup2(pipe, 3);
  close_range(4, ~0U, 0);
  std::set<pid_t> groups;
  pid_t group = 0;
  while (true) {
    const ssize_t size = read(3, &group, sizeof group);
    if (size < 0 && errno == EINTR) continue;
    if (size != sizeof group) break;
    if (group > 0)
      groups.insert(group);
    else
      groups.erase(-group);
  }
  for (const pid_t survivor : groups) kill(-survivor, SIGKILL);
  std::error_code ignored;
  std::filesystem::remove_all(private_folder, ignored);
  _exit(0);
}

}  // namespace

Guard::Guard(const std::string& private_folder) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    throw Error(ExitCode::resources, std::string("pipe: ") + std::strerror(errno));
  pid_ = fork();
  if (pid_ == 0) run_guard(ends[0], private_folder);
  close(ends[0]);
  pipe_ = Fd(ends[1]);
  if (pid_ < 0)
    throw Error(ExitCode::resources, std::string("cannot start a process: ") + std::strerror(errno));
}

Guard::~Guard() {
  pipe_.reset();
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void Guard::watch(pid_t group) {
  [[maybe_unused]] const ssize_t written = write(pipe_.get(), &group, sizeof group);
}
void Guard::forget(pid_t group) { watch(-group); }

}  // namespace rondo::launch
