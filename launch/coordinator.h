// Coordinates a job on node 0: accepts the other launchers and decides what every node does. Node
// 0's own launcher is a member like the others, connected by a socket pair. So one node and several
// nodes take the same path.
//
//   joining -> running -> stopping -> (all nodes ended) -> running again, or finished
//
// Owned by the launcher of node 0. Single-threaded.
#pragma once

#include <poll.h>

#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launch/crash_loop.h"
#include "launch/options.h"
#include "launch/rank_status.h"
#include "launch/rendezvous/handshake.h"
#include "launch/rendezvous/messages.h"
#include "support/stopwatch.h"

namespace rondo::launch {

class Coordinator {
 public:
  // `rendezvous` listens at the rendezvous endpoint; it is empty for a job of one node. `own` is
  // node 0's end of the socket pair.
  Coordinator(const LaunchOptions& options, Listener rendezvous, Fd own);

  void add_polls(std::vector<pollfd>& polls) const;
  // Returns for how many seconds newcomers stay out of the polls; call serve() after that. 0: they
  // are polled.
  double pause_s() const;
  // Accepts, reads, answers and checks timeouts. Never blocks. Throws Error(environment) if nodes
  // are missing after the join timeout; the message names those that joined.
  void serve();

  // Returns the bound socket of rank 0's store, once per start.
  Fd take_master() { return std::move(master_.fd); }
  bool finished() const { return state_ == State::finished; }
  // After the finish: whether all other launchers have read it and closed their connections.
  bool all_others_left() const;
  // Set if the job finished because a rank failed.
  const std::optional<Failure>& root_cause() const { return root_cause_; }
  // Set if root_cause() is a lost peer and the rank that hung is known.
  const std::optional<HangCulprit>& hang_culprit() const { return hang_culprit_; }

 private:
  enum class State { joining, running, stopping, finished };
  // A connection that is not admitted yet. It proves that it knows the secret, then introduces
  // itself. Newcomers never delay the members.
  struct Newcomer {
    Channel channel;
    std::optional<Handshake> proof;  // during the handshake
    bool is_own = false;
    double connected_s = now_s();
  };
  struct Member {
    Channel channel;
    Join join;
    bool is_own = false;
    int node = -1;  // set at the first start
    std::optional<Ended> ended = {};
  };

  void accept_newcomers();
  void read_newcomers();
  void read_newcomer(Newcomer& newcomer);
  void read(Member& member);
  void handle(Member& member, const Json& message);
  Member* admit(Newcomer& newcomer, const Json& message);
  std::string objection_to(const Join& join, bool is_own) const;
  void check_lost_members();
  void lose(Member& member);
  void begin_if_complete();
  void assign_node_numbers();
  bool open_master(std::string& why);
  void start();
  void stop(const Member* except);
  void forward(const Member& from, int signal);
  void decide_if_all_ended();
  std::vector<int> find_root_cause();
  void finish(int code, const std::string& report);
  void broadcast(const Json& message, const Member* except);
  std::string missing_nodes() const;

  const LaunchOptions& options_;
  Listener rendezvous_;
  Listener master_;
  std::list<Newcomer> newcomers_;                 // oldest first
  std::vector<std::unique_ptr<Member>> members_;  // in node order once running
  double accept_after_s_ = 0;                     // no accept() before it: out of descriptors
  double newcomers_read_s_ = 0;                   // when newcomers were last read
  State state_ = State::joining;
  double opened_s_;
  int generation_ = 0;
  bool signalled_ = false;
  bool lost_a_node_ = false;
  std::optional<Failure> root_cause_;
  std::optional<HangCulprit> hang_culprit_;
  CrashLoop crash_loop_;
};

}  // namespace rondo::launch
