// Node 0's side of a job: where launchers meet, and who decides what all of them do. Node 0's own agent is a
// member like the others, over a socket pair, so one node and many go the same way.
//
//   joining -> running -> stopping -> (all nodes ended) -> running again, or finished
//
// Owned by the launcher of node 0; one thread.
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

namespace rondo::launch {

class Coordinator {
 public:
  // `meeting` listens at the rendezvous; empty for a job of one node. `own` is node 0's end of the socket
  // pair.
  Coordinator(const LaunchOptions& options, Listener meeting, Fd own);

  void add_polls(std::vector<pollfd>& polls) const;
  // For how long newcomers are left out of the polls; after that serve() wants to be called. 0: they are in.
  double pause_s() const;
  // Accepts, reads, answers, and minds the clock. Never blocks. Throws Error(environment) when nodes are
  // missing after the join timeout; it names those that came.
  void serve();

  // The bound socket of rank 0's store, once for each start.
  Fd take_master() { return std::move(master_.fd); }
  bool finished() const { return state_ == State::finished; }
  // After the finish: the other launchers have read it and closed their ends.
  bool all_others_left() const;
  // Set when finished because a rank failed.
  const std::optional<Failure>& root_cause() const { return root_cause_; }
  // Set where that is a lost peer, and a rank is known to have held the others up.
  const std::optional<HangCulprit>& hang_culprit() const { return hang_culprit_; }

 private:
  enum class State { joining, running, stopping, finished };
  // A connection until it is admitted: it proves that it knows the secret, and then introduces itself.
  // However many there are, they delay nobody.
  struct Newcomer {
    Channel channel;
    std::optional<Handshake> proof;  // while it goes on
    bool is_own = false;
    double connected_s = now_s();
  };
  struct Member {
    Channel channel;
    Join join;
    bool is_own = false;
    int node = -1;  // set at the first start
    std::optional<Ended> ended;
  };

  void accept_newcomers();
  void hear_newcomers();
  void hear(Newcomer& newcomer);
  void read(Member& member);
  void handle(Member& member, const Json& message);
  Member* admit(Newcomer& newcomer, const Json& message);
  std::string objection_to(const Join& join, bool is_own) const;
  void mind_losses();
  void lose(Member& member);
  void begin_if_complete();
  void give_nodes_numbers();
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
  Listener meeting_;
  Listener master_;
  std::list<Newcomer> newcomers_;                 // the oldest first
  std::vector<std::unique_ptr<Member>> members_;  // in the order of nodes once running
  double deaf_until_s_ = 0;                       // nobody is accepted: there are no descriptors
  double heard_s_ = 0;                            // when newcomers were heard
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
