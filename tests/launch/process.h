// Starts `rondo launch` as a user would, and waits for it with a time limit.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/runs/metrics/scratch.h"

namespace rondo::launch {

// Polls until `condition` holds. Returns false after `patience`.
template <typename Condition>
bool holds_soon(Condition condition, std::chrono::seconds patience = std::chrono::seconds(20)) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

// Whether a process has ended; zombies that wait for init count as ended.
inline bool is_gone(int pid) {
  const std::string status = text_of("/proc/" + std::to_string(pid) + "/stat");
  return status.empty() || status.substr(status.rfind(')') + 2, 1) == "Z";
}

struct Finished {
  int code;  // 128 + n for signal n
  std::string out, err;
};

class Launch {
 public:
  // `args` follow `rondo launch`; `environment` is added to this process's.
  explicit Launch(const std::vector<std::string>& args,
                  const std::vector<std::pair<std::string, std::string>>& environment = {}) {
    std::vector<std::string> line = {RONDO_BINARY_DIR "/rondo", "launch"};
    line.insert(line.end(), args.begin(), args.end());
    std::vector<char*> argv;
    for (std::string& word : line) argv.push_back(word.data());
    argv.push_back(nullptr);
    pid_ = fork();
    if (pid_ != 0) return;
    for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
    dup2(open((folder_ / "out").c_str(), O_WRONLY | O_CREAT, 0600), 1);
    dup2(open((folder_ / "err").c_str(), O_WRONLY | O_CREAT, 0600), 2);
    execv(argv[0], argv.data());
    _exit(127);
  }
  ~Launch() {
    if (ended_) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

  int pid() const { return pid_; }
  void signal(int number) const { kill(pid_, number); }
  std::string out() const { return text_of(folder_ / "out"); }
  std::string err() const { return text_of(folder_ / "err"); }

  Finished wait(std::chrono::seconds patience = std::chrono::seconds(20)) {
    int status = 0;
    ended_ = holds_soon([&] { return waitpid(pid_, &status, WNOHANG) == pid_; }, patience);
    if (!ended_) throw std::runtime_error("rondo launch did not end:\n" + out() + err());
    return {WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status), out(), err()};
  }

 private:
  Scratch folder_;
  pid_t pid_ = -1;
  bool ended_ = false;
};

// Returns the arguments of `rondo launch FLAGS --no-python /bin/sh -c SCRIPT`.
inline std::vector<std::string> shell(std::vector<std::string> flags, const std::string& script) {
  for (const char* word : {"--no-python", "/bin/sh", "-c"}) flags.emplace_back(word);
  flags.push_back(script);
  return flags;
}

inline Finished launch(const std::vector<std::string>& args,
                       const std::vector<std::pair<std::string, std::string>>& environment = {}) {
  return Launch(args, environment).wait();
}

}  // namespace rondo::launch
