// One thread and no blocking call. Each round accepts connections, reads all members, checks for
// silence, and only then decides. A connection is a newcomer until it is admitted. Newcomers are
// limited in number, cost little, and the oldest makes room for the next. A decision waits until
// every node has reported its end. The coordinator writes the report of a lost node, so that the
// job can end. The port of rank 0's store is bound here and its socket passed to rank 0: a port
// that is only chosen may be taken in between.
#include "launch/coordinator.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <utility>

#include "launch/failure.h"
#include "support/error.h"
#include "support/stopwatch.h"

namespace rondo::launch {
namespace {

constexpr double kJoinWithin_s = 10;        // an unadmitted connection is dropped after this
constexpr std::size_t kMaxNewcomers = 256;  // beyond this, the oldest is dropped
constexpr int kMaxAcceptsPerRound = 256;    // bounds the time of one round
constexpr std::size_t kCrowd = 8;           // more newcomers are read together, after a pause
constexpr double kCrowdPause_s = 0.02;      // each wake-up examines all newcomers
constexpr double kAcceptPause_s = 1;
constexpr int kTokenBytes = 16;

// Returns the address of rank 0's store.
std::string master_address(const LaunchOptions& options) {
  if (!options.master_addr.empty()) return options.master_addr;
  if (!options.local_addr.empty()) return options.local_addr;
  return options.nodes > 1 ? options.rendezvous.host : "127.0.0.1";
}

}  // namespace

Coordinator::Coordinator(const LaunchOptions& options, Listener rendezvous, Fd own)
    : options_(options), rendezvous_(std::move(rendezvous)), opened_s_(now_s()) {
  newcomers_.push_back({Channel(std::move(own)), std::nullopt, /*is_own=*/true});
}

double Coordinator::pause_s() const {
  return newcomers_.size() > kCrowd ? std::max(0.0, newcomers_read_s_ + kCrowdPause_s - now_s()) : 0;
}

void Coordinator::add_polls(std::vector<pollfd>& polls) const {
  if (pause_s() == 0) {
    if (rendezvous_.fd && now_s() >= accept_after_s_) polls.push_back({rendezvous_.fd.get(), POLLIN, 0});
    for (const Newcomer& newcomer : newcomers_) polls.push_back({newcomer.channel.fd(), POLLIN, 0});
  }
  for (const auto& member : members_)
    if (!member->channel.closed())
      polls.push_back({member->channel.fd(),
                       static_cast<short>(POLLIN | (member->channel.wants_to_write() ? POLLOUT : 0)), 0});
}

void Coordinator::serve() {
  if (finished()) {
    for (const auto& member : members_) {
      member->channel.receive();
      member->channel.flush();
    }
    return;
  }
  if (pause_s() == 0) {
    accept_newcomers();
    read_newcomers();
  }
  // By index: handling a member may close others, but removes none.
  for (std::size_t i = 0; i < members_.size(); ++i) read(*members_[i]);
  check_lost_members();
  if (state_ == State::joining) begin_if_complete();
  if (state_ == State::running || state_ == State::stopping) decide_if_all_ended();
}

void Coordinator::accept_newcomers() {
  if (!rendezvous_.fd || now_s() < accept_after_s_) return;
  const auto oldest = [&] {
    return std::find_if(newcomers_.begin(), newcomers_.end(),
                        [](const Newcomer& newcomer) { return !newcomer.is_own; });
  };
  for (int accepted = 0; accepted < kMaxAcceptsPerRound; ++accepted) {
    Fd fd(accept4(rendezvous_.fd.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    const bool no_room = !fd && (errno == EMFILE || errno == ENFILE);
    if (!fd && !no_room) return;
    if ((no_room || newcomers_.size() >= kMaxNewcomers) && oldest() != newcomers_.end())
      newcomers_.erase(oldest());
    else if (no_room)
      accept_after_s_ = now_s() + kAcceptPause_s;  // otherwise the socket wakes every poll
    if (no_room) return;
    newcomers_.push_back({Channel(std::move(fd)), Handshake(Handshake::Side::node_0, options_.secret)});
  }
}

void Coordinator::read_newcomers() {
  newcomers_read_s_ = now_s();
  for (Newcomer& newcomer : newcomers_) read_newcomer(newcomer);
  std::erase_if(newcomers_, [](const Newcomer& newcomer) { return newcomer.channel.closed(); });
}

void Coordinator::read_newcomer(Newcomer& newcomer) {
  if (newcomer.proof) {
    const Handshake::State state = newcomer.proof->go_on(newcomer.channel.fd());
    if (state == Handshake::State::failed) return newcomer.channel.close(newcomer.proof->problem());
    if (state == Handshake::State::going_on && now_s() - newcomer.connected_s > kJoinWithin_s)
      return newcomer.channel.close("it did not prove that it knows the secret");
    if (state == Handshake::State::going_on) return;
    newcomer.proof.reset();
  }
  Member* member = nullptr;
  for (const Json& message : newcomer.channel.receive()) {
    if (member != nullptr) {
      handle(*member, message);
    } else {
      member = admit(newcomer, message);
      if (member == nullptr) return;
    }
  }
  if (member == nullptr && now_s() - newcomer.connected_s > kJoinWithin_s)
    newcomer.channel.close("it sent no join message");
}

void Coordinator::read(Member& member) {
  for (const Json& message : member.channel.receive()) handle(member, message);
  member.channel.flush();
  member.channel.beat();
}

void Coordinator::handle(Member& member, const Json& message) {
  const std::string type = text_field(message, "type", 32);
  const auto generation = integer_field(message, "generation", 0, generation_);
  const bool is_current = generation == generation_ && member.node >= 0;
  if (type == "failed" && is_current && state_ == State::running) {
    stop(&member);
  } else if (type == "ended" && is_current) {
    member.ended = to_ended(message);
    if (!member.ended) member.channel.close("it sent an invalid report");
  } else if (type == "signalled") {
    if (const auto signal = integer_field(message, "signal", 1, 64))
      forward(member, static_cast<int>(*signal));
  }
}

// Returns the member, or nullptr if the newcomer was refused.
Coordinator::Member* Coordinator::admit(Newcomer& newcomer, const Json& message) {
  const auto join = to_join(message);
  const std::string objection = join ? objection_to(*join, newcomer.is_own) : "it sent no join message";
  if (!objection.empty()) {
    newcomer.channel.send({{"type", "refused"}, {"reason", objection}});
    newcomer.channel.close("it was refused");
    return nullptr;
  }
  members_.push_back(std::make_unique<Member>(Member{
      .channel = std::exchange(newcomer.channel, Channel(Fd())), .join = *join, .is_own = newcomer.is_own}));
  return members_.back().get();
}

std::string Coordinator::objection_to(const Join& join, bool is_own) const {
  const auto has_its_number = [&](const auto& member) {
    return join.node_rank > 0 && member->join.node_rank == join.node_rank;
  };
  if (state_ != State::joining || members_.size() == static_cast<std::size_t>(options_.nodes))
    return fmt::format("the job already has its {} nodes", options_.nodes);
  if (join.nodes != options_.nodes)
    return fmt::format("node 0 has --nnodes {}, this node {}", options_.nodes, join.nodes);
  if ((join.node_rank == 0 && !is_own) || std::any_of(members_.begin(), members_.end(), has_its_number))
    return fmt::format("--node-rank {} is taken", join.node_rank);
  if (join.node_rank >= options_.nodes)
    return fmt::format("--node-rank {} must be below {}", join.node_rank, options_.nodes);
  return "";
}

void Coordinator::check_lost_members() {
  for (const auto& member : members_) {
    if (!member->is_own && !member->channel.closed() &&
        member->channel.silent_s() > options_.silence_timeout_s)
      member->channel.close(fmt::format("it sent nothing for {:.0f} s", options_.silence_timeout_s));
    if (member->channel.closed() && member->node >= 0 && !member->ended) lose(*member);
  }
  // Drops nodes that left before the start.
  std::erase_if(members_, [](const auto& member) { return member->channel.closed() && member->node < 0; });
  if (state_ != State::joining || now_s() - opened_s_ < options_.join_timeout_s) return;
  throw Error(ExitCode::environment, missing_nodes());
}

std::string Coordinator::missing_nodes() const {
  std::string joined;
  for (const auto& member : members_)
    joined += fmt::format("{}{} (pid {}{})", joined.empty() ? "" : ", ", member->join.host, member->join.pid,
                          member->join.node_rank < 0 ? "" : fmt::format(", node {}", member->join.node_rank));
  return fmt::format(
      "{} of {} nodes joined job \"{}\" at {}:{} within {} s: {}. Start the others with the same "
      "--rdzv-id and endpoint, or allow more time with --rdzv-conf join_timeout=S",
      members_.size(), options_.nodes, options_.run_id, options_.rendezvous.host, rendezvous_.port,
      options_.join_timeout_s, joined);
}

// Ends the job because of a lost node. Its ranks count as failed with the exit code for a lost
// peer.
void Coordinator::lose(Member& member) {
  lost_a_node_ = true;
  Failure failure;
  failure.node = member.node;
  failure.host = member.join.host;
  failure.exit_code = static_cast<int>(ExitCode::peer);
  failure.pid = member.join.pid;
  failure.rank = -1;
  failure.time_s = wall_time_s();
  failure.message = member.channel.why_closed();
  member.ended = Ended{generation_, failure, {failure.exit_code}};
  if (state_ == State::running) stop(&member);
}

void Coordinator::begin_if_complete() {
  if (members_.size() < static_cast<std::size_t>(options_.nodes)) return;
  assign_node_numbers();
  start();
}

void Coordinator::assign_node_numbers() {
  std::set<int> taken = {0};
  for (const auto& member : members_) taken.insert(member->join.node_rank);
  int next = 0;
  for (const auto& member : members_) {
    if (member->is_own)
      member->node = 0;
    else if (member->join.node_rank >= 0)
      member->node = member->join.node_rank;
    else {
      while (taken.count(next)) ++next;
      member->node = next++;
    }
  }
  std::sort(members_.begin(), members_.end(), [](const auto& a, const auto& b) { return a->node < b->node; });
}

// Binds rank 0's port here and passes the socket to rank 0, so that no other process can take it.
// If the nodes rendezvous at the requested master port, that listener is closed first. The job then
// needs only one open port.
bool Coordinator::open_master(std::string& problem) {
  const int port = options_.master_port.value_or(0);
  const std::string host = master_address(options_);
  const bool listening = !options_.runs_any_program;
  if (rendezvous_.fd && port == rendezvous_.port) rendezvous_.fd.reset();
  int failure = 0;
  master_ = bind_to(host, port, listening, failure);
  if (master_.fd) return true;
  problem = bind_problem(host, port, failure, "--master-port (0 takes a free one)",
                         "--master-addr must be an address of the node of rank 0");
  return false;
}

void Coordinator::start() {
  std::string problem;
  if (!open_master(problem)) return finish(static_cast<int>(ExitCode::environment), problem);
  Start start;
  start.generation = generation_;
  start.store_token = random_token(kTokenBytes);
  start.nodes = options_.nodes;
  start.master_addr = master_address(options_);
  start.master_port = master_.port;
  for (const auto& member : members_) start.world_size += member->join.ranks;
  std::map<std::string, int> of_role;
  for (const auto& member : members_) of_role[member->join.role] += member->join.ranks;
  std::map<std::string, int> before_in_role;
  for (const auto& member : members_) {
    start.node = member->node;
    start.role_world_size = of_role[member->join.role];
    start.first_role_rank = before_in_role[member->join.role];
    member->ended.reset();
    member->channel.send(to_json(start));
    start.first_rank += member->join.ranks;
    before_in_role[member->join.role] += member->join.ranks;
  }
  state_ = State::running;
}

void Coordinator::stop(const Member* except) {
  state_ = State::stopping;
  broadcast({{"type", "stop"}, {"generation", generation_}}, except);
}

void Coordinator::forward(const Member& from, int signal) {
  signalled_ = true;
  broadcast({{"type", "forward"}, {"signal", signal}}, &from);
}

// Finds the root cause in the reports of all nodes. Returns the exit codes of all ranks.
std::vector<int> Coordinator::find_root_cause() {
  root_cause_.reset();
  std::vector<int> codes;
  std::vector<RankStatus> statuses;
  for (const auto& member : members_) {
    const Ended& ended = *member->ended;
    codes.insert(codes.end(), ended.codes.begin(), ended.codes.end());
    statuses.insert(statuses.end(), ended.statuses.begin(), ended.statuses.end());
  }
  hang_culprit_ = find_hang_culprit(statuses);
  for (const auto& member : members_) {
    const auto& first = member->ended->first;
    if (first && (!root_cause_ || is_likelier_cause(*first, *root_cause_, hang_culprit_)))
      root_cause_ = first;
  }
  // After a signal the ranks end at different times, so a lost peer is no cause.
  if (signalled_ && root_cause_ && root_cause_->lost_peer() && !lost_a_node_) root_cause_.reset();
  if (!root_cause_ || !root_cause_->lost_peer()) hang_culprit_.reset();
  return codes;
}

void Coordinator::decide_if_all_ended() {
  if (!std::all_of(members_.begin(), members_.end(),
                   [](const auto& member) { return member->ended.has_value(); }))
    return;
  const std::vector<int> codes = find_root_cause();
  const int code = root_cause_ ? root_cause_->code() : common_code(codes);
  const bool restarts =
      root_cause_ && may_restart(code) && !signalled_ && !lost_a_node_ && generation_ < options_.max_restarts;
  std::string report;
  if (root_cause_) report = describe(*root_cause_, static_cast<int>(codes.size()), options_.nodes);
  if (hang_culprit_) report += "\n  " + hang_culprit_->text;
  if (!restarts) return finish(code, report);
  if (const std::string crash_loop = crash_loop_.add(*root_cause_); !crash_loop.empty())
    return finish(static_cast<int>(ExitCode::do_not_requeue),
                  report + "\n  not restarted: " + crash_loop + "; find the cause first");
  ++generation_;
  broadcast({{"type", "say"},
             {"text", report + fmt::format("\n  restarting all ranks: restart {} of {}", generation_,
                                           options_.max_restarts)}},
            nullptr);
  start();
}

void Coordinator::finish(int code, const std::string& report) {
  state_ = State::finished;
  broadcast(to_json(Finish{code, report}), nullptr);
}

bool Coordinator::all_others_left() const {
  return std::all_of(members_.begin(), members_.end(),
                     [&](const auto& member) { return member->is_own || member->channel.closed(); });
}

void Coordinator::broadcast(const Json& message, const Member* except) {
  for (const auto& member : members_)
    if (member.get() != except) member->channel.send(message);
}

}  // namespace rondo::launch
