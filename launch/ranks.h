// The ranks of this node during one attempt: started, watched through pidfds, stopped.
//
// A rank leads its own process group, so that signals reach what it started; it dies with the launcher.
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

// Paths of this launcher; those of an attempt lie below `logs` and `errors`.
struct Places {
  std::string program;          // the path of what the ranks run
  std::string logs;             // --log-dir or a temporary folder, with the job's id
  std::string errors;           // error files: below `logs` with --log-dir, else in the private folder
  std::string run_folder_file;  // rank 0 writes `run_folder=/abs/path` into it when its run has begun there
};

class Ranks {
 public:
  // Starts them all. Throws Error(environment) if the program cannot be started, Error(resources) if there is
  // no room for another process; those that were started are killed.
  Ranks(const LaunchOptions& options, const Start& start, const Places& places, const std::string& host,
        Fd master, Output& output, Guard& guard);
  ~Ranks();  // kills what is left
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  void add_polls(std::vector<pollfd>& polls) const;
  void serve();  // reads output, notices deaths, kills after the grace

  void signal_all(int signal);
  void forward(int signal);  // and SIGKILL after the grace of signals
  void stop();               // SIGTERM, and SIGKILL after the grace
  void kill_all();           // SIGKILL
  // From now on an end by `signal`, or with its code, is no failure of the rank.
  void expect(int signal) { expected_.push_back(signal); }

  bool all_ended() const;
  // A rank failed, so the others must be stopped. Some time after the failure where a better cause may still
  // show up.
  bool must_stop() const;
  Ended ended() const;

 private:
  struct Rank {
    pid_t pid = -1;  // also its process group
    Fd pidfd;
    RankStreams streams;
    std::unique_ptr<progress::Page> page;
    std::int64_t notes = 0;  // in the page at the latest look
    double moved_s = 0;      // monotonic: when they were seen to change
    std::string error_file;
    std::optional<int> status;  // of waitpid, once it has ended
    double ended_s = 0;         // since the epoch
    bool was_stopped = false;   // it ended after stop()
  };

  std::vector<std::string> environment(int local_rank, const Rank& rank, int master_fd) const;
  void start_rank(int local_rank, const Places& places, int master_fd);
  void reap(Rank& rank);
  bool is_failure(const Rank& rank) const;
  void look_at_progress();
  std::vector<RankStatus> statuses() const;
  void kill_late();
  Failure failure_of(int local_rank) const;
  std::optional<Failure> first_failure() const;

  const LaunchOptions& options_;
  const Start start_;
  const std::string host_, run_folder_file_;
  Output& output_;
  Guard& guard_;
  std::vector<Rank> ranks_;
  std::vector<int> expected_;
  std::optional<double> stopped_s_;    // monotonic
  std::optional<double> forwarded_s_;  // monotonic: since when the ranks are asked to end
  double stopped_wall_s_ = 0;
  std::optional<double> first_failed_s_;  // monotonic
  std::vector<RankStatus> statuses_;  // before any was stopped: the likeliest to hold others up, the least
};

}  // namespace rondo::launch
