// Ranks that stay alive and execute one run after the other. They are processes of their own and
// form new process groups for each run. Starting LibTorch takes longer than a few steps of a small
// model. So a run must leave no state behind that affects the next one.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

#include "launch/rendezvous/net.h"

namespace rondo::launch {

struct PlayedRun {
  bool timed_out = false;  // some ranks did not end, and none failed
  int exit_code = 0;       // of the first rank to fail; -1 if it died
  std::string output;      // of all ranks, concatenated; the first 64 KiB of each
};

class RankPool {
 public:
  // Starts the ranks. `worker` is the path of rondo-worker. REQUIRES: this process has one thread.
  // Throws what spawn() throws, and Error(environment) if a rank ends before its first run.
  RankPool(const std::string& worker, int ranks);
  RankPool(RankPool&&) noexcept = default;

  // Runs `train FLAGS` on all ranks, as `rondo launch --nproc-per-node RANKS` does. Once a rank has
  // failed, the others get 3 s. After a run that failed or timed out the pool must not be used: its
  // ranks may still wait for each other.
  PlayedRun play(const std::vector<std::string>& flags, std::chrono::seconds timeout);

 private:
  // One process, its socket and the file of its output. Killed by the destructor.
  class Rank {
   public:
    Rank(const std::string& worker, int rank, int ranks);
    Rank(Rank&& other) noexcept;
    ~Rank();
    void tell(const std::string& words) const;
    // Returns "" if the process died. REQUIRES: the socket is readable.
    std::string answer() const;
    int socket() const { return socket_.get(); }
    void forget_output() const;
    std::string output() const;

   private:
    Fd socket_, output_;
    pid_t pid_ = 0;
  };

  struct Answer {
    std::size_t rank = 0;
    std::string text;
  };
  // Returns the answers in the order of arrival; fewer than ranks after a timeout.
  std::vector<Answer> answers(std::chrono::seconds timeout) const;

  std::vector<Rank> ranks_;
  std::string port_;
  int runs_ = 0;
};

// Serves the runs in the process of a rank: executes each request from the socket with `train`,
// until the socket closes. Returns the exit code of the process. Rank 0 keeps one listening socket
// for the stores of all runs.
int serve_runs(int socket, int (*train)(const std::vector<std::string>& flags));

}  // namespace rondo::launch
