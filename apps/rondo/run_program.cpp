// Uses posix_spawn with both outputs in one pipe; the end of the pipe is the end of the program.
// Discards output above the limit, since a full pipe would block the program. The child leads its
// own process group, so a timeout also kills its children.
#include "apps/rondo/run_program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>

namespace rondo {
namespace {

constexpr std::size_t kOutputLimit = 256 * 1024;

int spawn(const std::vector<std::string>& argv, int output_fd, pid_t* pid) {
  std::vector<char*> words;
  for (const std::string& word : argv) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, output_fd, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output_fd, STDERR_FILENO);
  // Its own group, so that a timeout also kills its children.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  const int error_number = posix_spawn(pid, words[0], &actions, &attributes, words.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return error_number;
}

// Reads until the other side closes. Returns false at the deadline.
bool read_until(int fd, std::chrono::steady_clock::time_point deadline, std::string* output) {
  std::array<char, 4096> chunk;
  while (true) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) return false;
    pollfd waited{fd, POLLIN, 0};
    if (poll(&waited, 1, static_cast<int>(left.count())) <= 0) continue;
    const ssize_t count = read(fd, chunk.data(), chunk.size());
    if (count == 0) return true;
    if (count < 0 && errno != EINTR) return true;
    if (count > 0 && output->size() < kOutputLimit)
      output->append(chunk.data(), static_cast<std::size_t>(count));
  }
}

}  // namespace

ProgramResult run_program(const std::vector<std::string>& argv, int timeout_ms) {
  ProgramResult result;
  int pipe_fds[2];
  if (pipe2(pipe_fds, O_CLOEXEC) != 0) {
    result.output = std::strerror(errno);
    return result;
  }
  pid_t pid = 0;
  const int error_number = spawn(argv, pipe_fds[1], &pid);
  close(pipe_fds[1]);
  if (error_number != 0) {
    close(pipe_fds[0]);
    result.output = std::strerror(error_number);
    return result;
  }
  result.started = true;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
  result.timed_out = !read_until(pipe_fds[0], deadline, &result.output);
  if (result.timed_out) kill(-pid, SIGKILL);
  close(pipe_fds[0]);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

}  // namespace rondo
