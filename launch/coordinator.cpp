// One thread and no blocking call: each round accepts, reads all members, minds silence, and only then
// decides. Connections are newcomers until they are admitted: they are few, cost little each, make room for
// the next and are asked about nothing. A decision waits until every node has reported its end; a lost node
// is given a report, so that it cannot hold the job up. The port of rank 0's store is bound here and handed
// over, because a port that is only chosen may be taken in between.
#include "launch/coordinator.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>
#include <utility>

#include "launch/failure.h"
#include "support/error.h"

namespace rondo::launch {
namespace {

constexpr double kJoinWithin_s = 10;         // a connection that has not introduced itself by then is dropped
constexpr std::size_t kMostNewcomers = 256;  // the oldest makes room
constexpr int kAcceptedAtOnce = 256;         // so that nothing else waits
constexpr std::size_t kCrowd = 8;            // newcomers beyond this are heard together, after a pause
constexpr double kCrowdPause_s = 0.02;       // each wake costs a look at all of them
constexpr double kDeaf_s = 1;
constexpr int kTokenBytes = 16;

}  // namespace

Coordinator::Coordinator(const LaunchOptions& options, Listener meeting, Fd own)
    : options_(options), meeting_(std::move(meeting)), opened_s_(now_s()) {
  newcomers_.push_back({Channel(std::move(own)), std::nullopt, /*is_own=*/true});
}

double Coordinator::pause_s() const {
  return newcomers_.size() > kCrowd ? std::max(0.0, heard_s_ + kCrowdPause_s - now_s()) : 0;
}

void Coordinator::add_polls(std::vector<pollfd>& polls) const {
  if (pause_s() == 0) {
    if (meeting_.fd && now_s() >= deaf_until_s_) polls.push_back({meeting_.fd.get(), POLLIN, 0});
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
    hear_newcomers();
  }
  // By index: a member may be handled while others are being closed, but none is removed here.
  for (std::size_t i = 0; i < members_.size(); ++i) read(*members_[i]);
  mind_losses();
  if (state_ == State::joining) begin_if_complete();
  if (state_ == State::running || state_ == State::stopping) decide_if_all_ended();
}

void Coordinator::accept_newcomers() {
  if (!meeting_.fd || now_s() < deaf_until_s_) return;
  const auto oldest = [&] {
    return std::find_if(newcomers_.begin(), newcomers_.end(),
                        [](const Newcomer& newcomer) { return !newcomer.is_own; });
  };
  for (int accepted = 0; accepted < kAcceptedAtOnce; ++accepted) {
    Fd fd(accept4(meeting_.fd.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    const bool no_room = !fd && (errno == EMFILE || errno == ENFILE);
    if (!fd && !no_room) return;
    if ((no_room || newcomers_.size() >= kMostNewcomers) && oldest() != newcomers_.end())
      newcomers_.erase(oldest());
    else if (no_room)
      deaf_until_s_ = now_s() + kDeaf_s;  // else the socket would wake us again and again
    if (no_room) return;
    newcomers_.push_back({Channel(std::move(fd)), Handshake(Handshake::Side::node_0, options_.secret)});
  }
}

void Coordinator::hear_newcomers() {
  heard_s_ = now_s();
  for (Newcomer& newcomer : newcomers_) hear(newcomer);
  std::erase_if(newcomers_, [](const Newcomer& newcomer) { return newcomer.channel.closed(); });
}

void Coordinator::hear(Newcomer& newcomer) {
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
    newcomer.channel.close("it did not introduce itself");
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
    if (!member.ended) member.channel.close("it sent a report that is not sound");
  } else if (type == "signalled") {
    if (const auto signal = integer_field(message, "signal", 1, 64))
      forward(member, static_cast<int>(*signal));
  }
}

// The member, or nullptr where the newcomer was refused.
Coordinator::Member* Coordinator::admit(Newcomer& newcomer, const Json& message) {
  const auto join = to_join(message);
  const std::string objection = join ? objection_to(*join, newcomer.is_own) : "it did not introduce itself";
  if (!objection.empty()) {
    newcomer.channel.send({{"type", "refused"}, {"reason", objection}});
    newcomer.channel.close("it was refused");
    return nullptr;
  }
  members_.push_back(std::make_unique<Member>(
      Member{std::exchange(newcomer.channel, Channel(Fd())), *join, newcomer.is_own, -1, std::nullopt}));
  return members_.back().get();
}

std::string Coordinator::objection_to(const Join& join, bool is_own) const {
  const auto has_its_number = [&](const auto& member) {
    return join.node_rank > 0 && member->join.node_rank == join.node_rank;
  };
  if (state_ != State::joining || members_.size() == static_cast<std::size_t>(options_.nodes))
    return fmt::format("the job already has its {} nodes", options_.nodes);
  if (join.nodes != options_.nodes)
    return fmt::format("node 0 says --nnodes {}, this one {}", options_.nodes, join.nodes);
  if ((join.node_rank == 0 && !is_own) || std::any_of(members_.begin(), members_.end(), has_its_number))
    return fmt::format("--node-rank {} is taken", join.node_rank);
  if (join.node_rank >= options_.nodes)
    return fmt::format("--node-rank {} must be below {}", join.node_rank, options_.nodes);
  return "";
}

void Coordinator::mind_losses() {
  for (const auto& member : members_) {
    if (!member->is_own && !member->channel.closed() &&
        member->channel.silent_s() > options_.silence_timeout_s)
      member->channel.close(fmt::format("it said nothing for {:.0f} s", options_.silence_timeout_s));
    if (member->channel.closed() && member->node >= 0 && !member->ended) lose(*member);
  }
  // Nodes that left before the start.
  std::erase_if(members_, [](const auto& member) { return member->channel.closed() && member->node < 0; });
  if (state_ != State::joining || now_s() - opened_s_ < options_.join_timeout_s) return;
  throw Error(ExitCode::environment, missing_nodes());
}

std::string Coordinator::missing_nodes() const {
  std::string who;
  for (const auto& member : members_)
    who += fmt::format("{}{} (pid {}{})", who.empty() ? "" : ", ", member->join.host, member->join.pid,
                       member->join.node_rank < 0 ? "" : fmt::format(", node {}", member->join.node_rank));
  return fmt::format(
      "{} of {} nodes joined job \"{}\" at {}:{} within {} s: {}. Start the others with the same "
      "--rdzv-id and endpoint, or allow more time with --rdzv-conf join_timeout=S",
      members_.size(), options_.nodes, options_.run_id, options_.rendezvous.host, meeting_.port,
      options_.join_timeout_s, who);
}

// The job cannot go on without the node; its ranks count as failed with the code for a lost peer.
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
  give_nodes_numbers();
  start();
}

void Coordinator::give_nodes_numbers() {
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

// Rank 0's port. It is bound here and handed to rank 0, so nobody can take it in between. Nodes that meet at
// the very port that was asked for leave it to rank 0: the job needs one open port only.
bool Coordinator::open_master(std::string& why) {
  const int port = options_.master_port.value_or(0);
  std::string host = options_.master_addr;
  if (host.empty()) host = !options_.local_addr.empty() ? options_.local_addr : options_.rendezvous.host;
  if (host.empty() || (options_.nodes == 1 && options_.master_addr.empty() && options_.local_addr.empty()))
    host = "127.0.0.1";
  const bool listening = !options_.runs_any_program;
  if (meeting_.fd && port == meeting_.port) meeting_.fd.reset();
  int failure = 0;
  master_ = bind_to(host, port, listening, failure);
  if (master_.fd) return true;
  why =
      failure == EADDRINUSE
          ? fmt::format(
                "port {} of {} is in use; end the program that holds it (`ss -ltnp`), or give another "
                "--master-port (0 takes a free one)",
                port, host)
          : fmt::format(
                "cannot listen on port {} of {}: {}; --master-addr must be an address of the node of rank 0",
                port, host, failure == ENOENT ? "the name does not resolve" : std::strerror(failure));
  return false;
}

void Coordinator::start() {
  std::string why;
  if (!open_master(why)) return finish(static_cast<int>(ExitCode::environment), why);
  Start start;
  start.generation = generation_;
  start.store_token = random_token(kTokenBytes);
  start.nodes = options_.nodes;
  start.master_addr = !options_.master_addr.empty()  ? options_.master_addr
                      : !options_.local_addr.empty() ? options_.local_addr
                      : options_.nodes > 1           ? options_.rendezvous.host
                                                     : "127.0.0.1";
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

// Of reports of all nodes. Returns the codes of all ranks.
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
  // Ranks that a signal ends do not all go at the same moment: then a lost peer is no cause.
  if (signalled_ && root_cause_ && root_cause_->code() == static_cast<int>(ExitCode::peer) && !lost_a_node_)
    root_cause_.reset();
  if (!root_cause_ || root_cause_->code() != static_cast<int>(ExitCode::peer)) hang_culprit_.reset();
  return codes;
}

void Coordinator::decide_if_all_ended() {
  if (!std::all_of(members_.begin(), members_.end(),
                   [](const auto& member) { return member->ended.has_value(); }))
    return;
  const std::vector<int> codes = find_root_cause();
  const int code = root_cause_ ? root_cause_->code() : common_code(codes);
  const bool again =
      root_cause_ && may_restart(code) && !signalled_ && !lost_a_node_ && generation_ < options_.max_restarts;
  std::string report;
  if (root_cause_) report = describe(*root_cause_, static_cast<int>(codes.size()), options_.nodes);
  if (hang_culprit_) report += "\n  " + hang_culprit_->text;
  if (!again) return finish(code, report);
  if (const std::string loop = crash_loop_.add(*root_cause_); !loop.empty())
    return finish(static_cast<int>(ExitCode::do_not_requeue),
                  report + "\n  not started again: " + loop + "; find the cause first");
  ++generation_;
  broadcast({{"type", "say"},
             {"text", report + fmt::format("\n  starting all ranks again: restart {} of {}", generation_,
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
