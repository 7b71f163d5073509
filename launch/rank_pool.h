// Ranks that stay alive and execute one run after the other. They form new process groups for each
// run. Starting LibTorch takes longer than a few steps of a small model. So one process loads it
// and forks all ranks, and a run must leave no state behind that affects the next one.
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
  // Starts `max_ranks` ranks. `worker` is the path of rondo-worker. REQUIRES: this process has one
  // thread. Throws what spawn() throws, and Error(environment) if a rank ends before its first run.
  RankPool(const std::string& worker, int max_ranks);

  // Runs `train FLAGS` on the first `ranks` ranks, as `rondo launch --nproc-per-node RANKS` does.
  // Once a rank has failed, the others get 3 s. After a run that failed or timed out the pool must
  // not be used: its ranks may still wait for each other. REQUIRES: 1 <= ranks <= max_ranks().
  PlayedRun play(int ranks, const std::vector<std::string>& flags, std::chrono::seconds timeout);

  int max_ranks() const { return static_cast<int>(ranks_.size()); }

 private:
  // The socket of one rank and the file of its output.
  struct Rank {
    void tell(const std::string& words) const;
    // Returns "" if the process died. REQUIRES: the socket is readable.
    std::string answer() const;
    void forget_output() const;
    std::string output() const;

    Fd socket, output_file;
  };

  struct Answer {
    std::size_t rank = 0;
    std::string text;
  };
  // Returns the answers of the first `count` ranks in the order of arrival; fewer after a timeout.
  std::vector<Answer> answers(std::size_t count, std::chrono::seconds timeout) const;

  // The process that forks the ranks, and kills them when `control` is closed.
  struct Parent {
    ~Parent();
    Fd control;
    pid_t pid = 0;
  };

  std::vector<Rank> ranks_;
  Parent parent_;
  std::string port_;
  int runs_ = 0;
};

// Serves the runs of `rondo-worker play DESCRIPTORS`, which a RankPool starts. Forks the ranks.
// Each executes its requests with `train` until its socket closes. Returns the exit code of the
// process, in the ranks too. Rank 0 keeps one listening socket for the stores of all runs. Throws
// Error(usage) unless a RankPool wrote `descriptors`. REQUIRES: this process has one thread.
int serve_runs(const std::string& descriptors, int (*train)(const std::vector<std::string>& flags));

}  // namespace rondo::launch
