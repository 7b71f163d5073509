// The ranks of this node during one attempt: starts them, watches them through pidfds, ends
// them. "Stopped" means suspended, by SIGSTOP or a debugger; "terminated" means ordered to end.
//
// Each rank leads its own process group, so that signals reach its children. A rank is killed when
// the launcher dies.
#pragma once

#include <poll.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launch/guard.h"
#include "launch/options.h"
#include "launch/output.h"
#include "launch/rendezvous/messages.h"
#include "support/watch/progress.h"

namespace rondo::launch {

// Paths of this launcher. Paths of an attempt are below `logs` and `errors`.
struct LaunchPaths {
  std::string program;  // path of the ranks' executable
  std::string logs;     // --log-dir or a temporary folder, with the job's id
  std::string errors;   // error files: below `logs` with --log-dir, else in the private folder
  // rank 0 writes `run_folder=/abs/path` into it once its run has begun
  std::string run_folder_file;
};

class Ranks {
 public:
  // Starts all ranks. Throws Error(environment) if the program cannot be started, and
  // Error(resources) if no process can be created. Ranks that were started are killed first.
  Ranks(const LaunchOptions& options, const Start& start, const LaunchPaths& paths, const std::string& host,
        Fd master, Output& output, Guard& guard);
  ~Ranks();  // kills the remaining ranks
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  void add_polls(std::vector<pollfd>& polls) const;
  void serve();  // reads output, reaps ranks, kills after the grace period

  void signal_all(int signal);
  void forward(int signal);  // and SIGKILL after the grace period of signals
  void terminate();          // SIGTERM, and SIGKILL after the grace period
  void kill_all();           // SIGKILL
  // A later end by `signal`, or with exit code 128 + signal, is no failure of the rank.
  void expect(int signal) { expected_.push_back(signal); }

  bool all_ended() const;
  // Returns whether a rank failed, so that the others must be terminated. If a more likely cause
  // may still appear, it is true only after a short wait.
  bool must_terminate() const;
  Ended ended() const;

 private:
  struct Rank {
    pid_t pid = -1;  // also its process group
    Fd pidfd;
    RankStreams streams;
    std::unique_ptr<progress::Page> page;
    std::int64_t notes = 0;  // in the page at the latest look
    double moved_s = 0;      // monotonic: when `notes` last changed
    std::string error_file;
    std::optional<int> status;    // wait status, once it has ended
    double ended_s = 0;           // since the epoch
    bool was_terminated = false;  // ended after terminate()
  };

  std::vector<std::string> environment(int local_rank, const Rank& rank, int master_fd) const;
  void start_rank(int local_rank, const LaunchPaths& paths, int master_fd);
  void reap(Rank& rank);
  bool is_failure(const Rank& rank) const;
  void read_progress();
  std::vector<RankStatus> statuses() const;
  void kill_remaining();
  void tell_of_stopped();
  Failure failure_of(int local_rank) const;
  std::optional<Failure> first_failure() const;

  const LaunchOptions& options_;
  const Start start_;
  const std::string host_, run_folder_file_;
  Output& output_;
  Guard& guard_;
  std::vector<Rank> ranks_;
  std::vector<int> expected_;
  std::optional<double> terminated_s_;  // monotonic
  std::optional<double> forwarded_s_;   // monotonic: when the ranks were first signalled to end
  double terminated_wall_s_ = 0;
  double looked_s_ = 0;  // monotonic: the latest look for stopped ranks
  bool told_of_stopped_ = false;
  std::optional<double> first_failed_s_;  // monotonic
  // before any rank was terminated; the likeliest culprit, then the least likely
  std::vector<RankStatus> statuses_;
};

}  // namespace rondo::launch
