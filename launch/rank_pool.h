// Ranks that stay alive and play one run after the other, as processes of their own that meet anew each time:
// starting LibTorch costs more than some steps of a small model. That a process can do this at all says that
// a run takes nothing with it into the next one and leaves nothing behind.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

#include "launch/rendezvous/net.h"

namespace rondo::launch {

struct PlayedRun {
  bool timed_out = false;  // some did not end, and none failed
  int exit_code = 0;       // of the first to fail; -1 where it died
  std::string output;      // of all ranks, one after the other, the first 64 KiB of each
};

class RankPool {
 public:
  // Starts them. `worker`: the path of rondo-worker. REQUIRES: this process has one thread. Throws what
  // spawn() throws, and Error(environment) where a rank ends before it plays anything.
  RankPool(const std::string& worker, int ranks);
  RankPool(RankPool&&) noexcept = default;

  // What `rondo launch --nproc-per-node RANKS -- train FLAGS` would do, without the launcher. Once a rank has
  // failed the others have 3 s left. After a run that did not end well the pool is of no more use: its ranks
  // may still wait for each other.
  PlayedRun play(const std::vector<std::string>& flags, std::chrono::seconds timeout);

 private:
  // One process, the socket to it and the file of its output. Killed with this object.
  class Rank {
   public:
    Rank(const std::string& worker, int rank, int ranks);
    Rank(Rank&& other) noexcept;
    ~Rank();
    void tell(const std::string& words) const;
    // "" where it died. REQUIRES: something can be read.
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
  // As they come; fewer than there are ranks where the time is over.
  std::vector<Answer> answers(std::chrono::seconds timeout) const;

  std::vector<Rank> ranks_;
  std::string port_;
  int runs_ = 0;
};

// The other side, in the process of a rank: plays what comes from the socket, each run by `train`, until the
// socket closes. Returns the exit code of the process. Rank 0 keeps one listening socket for the stores of
// all runs.
int serve_runs(int socket, int (*train)(const std::vector<std::string>& flags));

}  // namespace rondo::launch
