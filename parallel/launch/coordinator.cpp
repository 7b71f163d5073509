// One thread and no blocking call: each round accepts, reads all members, minds silence, and only then
// decides. A connection is a stranger until its `join` is admitted, and strangers are dropped after a while.
// A decision waits until every node has reported its end; a lost node is given a report, so that it cannot
// hold the job up. The port of rank 0's store is bound here and handed over, because a port that is only
// chosen may be taken in between.
#include "parallel/launch/coordinator.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>

#include "parallel/launch/failure.h"
#include "support/error.h"

namespace rondo::launch {
namespace {

constexpr double kJoinWithin_s = 10;  // a connection that has not introduced itself by then is dropped

}  // namespace

Coordinator::Coordinator(const LaunchOptions& options, Listener meeting, Fd own)
    : options_(options), meeting_(std::move(meeting)), opened_s_(now_s()) {
  members_.push_back(std::make_unique<Member>(std::move(own)));
}

void Coordinator::add_polls(std::vector<pollfd>& polls) const {
  if (meeting_.fd) polls.push_back({meeting_.fd.get(), POLLIN, 0});
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
  accept_members();
  // By index: a member may be handled while others are being closed, but none is removed here.
  for (std::size_t i = 0; i < members_.size(); ++i) read(*members_[i]);
  mind_losses();
  if (state_ == State::joining) begin_if_complete();
  if (state_ == State::running || state_ == State::stopping) decide_if_all_ended();
}

void Coordinator::accept_members() {
  // Room for every node, and for strangers that are turned away.
  const std::size_t room = static_cast<std::size_t>(options_.nodes) * 2 + 64;
  while (meeting_.fd && members_.size() < room) {
    Fd fd(accept4(meeting_.fd.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd) return;
    members_.push_back(std::make_unique<Member>(std::move(fd)));
  }
}

void Coordinator::read(Member& member) {
  for (const Json& message : member.channel.receive()) handle(member, message);
  member.channel.flush();
  if (member.join) member.channel.beat();
}

void Coordinator::handle(Member& member, const Json& message) {
  if (!member.join) return admit(member, message);
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

void Coordinator::admit(Member& member, const Json& message) {
  const auto join = to_join(message);
  if (!join) return member.channel.close("it did not introduce itself");
  const bool number_is_taken =
      join->node_rank == 0
          ? &member != members_[0].get()
          : std::any_of(members_.begin(), members_.end(), [&](const auto& other) {
              return join->node_rank > 0 && other->join && other->join->node_rank == join->node_rank;
            });
  if (join->job != options_.run_id)
    refuse(member, fmt::format("this is job \"{}\", not \"{}\" (--rdzv-id)", options_.run_id, join->job));
  else if (state_ != State::joining || joined() == static_cast<std::size_t>(options_.nodes))
    refuse(member, fmt::format("the job already has its {} nodes", options_.nodes));
  else if (join->nodes != options_.nodes)
    refuse(member, fmt::format("node 0 says --nnodes {}, this one {}", options_.nodes, join->nodes));
  else if (number_is_taken)
    refuse(member, fmt::format("--node-rank {} is taken", join->node_rank));
  else if (join->node_rank >= options_.nodes)
    refuse(member, fmt::format("--node-rank {} must be below {}", join->node_rank, options_.nodes));
  else
    member.join = join;
}

void Coordinator::refuse(Member& member, const std::string& reason) {
  member.channel.send({{"type", "refused"}, {"reason", reason}});
  member.channel.close("it was refused");
}

std::size_t Coordinator::joined() const {
  return static_cast<std::size_t>(std::count_if(members_.begin(), members_.end(),
                                                [](const auto& member) { return member->join.has_value(); }));
}

void Coordinator::mind_losses() {
  for (const auto& member : members_) {
    const double patience_s = member->join ? options_.silence_timeout_s : kJoinWithin_s;
    const bool is_own = member == members_[0];
    if (!is_own && !member->channel.closed() && member->channel.silent_s() > patience_s)
      member->channel.close(fmt::format("it said nothing for {:.0f} s", patience_s));
    if (member->channel.closed() && member->node >= 0 && !member->ended) lose(*member);
  }
  // Strangers, and nodes that left before the start.
  std::erase_if(members_, [](const auto& member) { return member->channel.closed() && member->node < 0; });
  if (state_ != State::joining || now_s() - opened_s_ < options_.join_timeout_s) return;
  throw Error(ExitCode::environment, missing_nodes());
}

std::string Coordinator::missing_nodes() const {
  std::string who;
  for (const auto& member : members_)
    if (member->join)
      who +=
          fmt::format("{}{} (pid {}{})", who.empty() ? "" : ", ", member->join->host, member->join->pid,
                      member->join->node_rank < 0 ? "" : fmt::format(", node {}", member->join->node_rank));
  return fmt::format(
      "{} of {} nodes joined job \"{}\" at {}:{} within {} s: {}. Start the others with the same "
      "--rdzv-id and endpoint, or allow more time with --rdzv-conf join_timeout=S",
      joined(), options_.nodes, options_.run_id, options_.rendezvous.host, meeting_.port,
      options_.join_timeout_s, who);
}

// The job cannot go on without the node; its ranks count as failed with the code for a lost peer.
void Coordinator::lose(Member& member) {
  lost_a_node_ = true;
  Failure failure;
  failure.node = member.node;
  failure.host = member.join->host;
  failure.exit_code = static_cast<int>(ExitCode::peer);
  failure.pid = member.join->pid;
  failure.rank = -1;
  failure.time_s = wall_time_s();
  failure.message = member.channel.why_closed();
  member.ended = Ended{generation_, failure, {failure.exit_code}};
  if (state_ == State::running) stop(&member);
}

void Coordinator::begin_if_complete() {
  if (joined() < static_cast<std::size_t>(options_.nodes)) return;
  give_nodes_numbers();
  start();
}

void Coordinator::give_nodes_numbers() {
  std::erase_if(members_, [](const auto& member) { return !member->join; });
  std::set<int> taken = {0};
  for (const auto& member : members_) taken.insert(member->join->node_rank);
  int next = 0;
  for (const auto& member : members_) {
    if (member == members_[0])
      member->node = 0;
    else if (member->join->node_rank >= 0)
      member->node = member->join->node_rank;
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
  start.nodes = options_.nodes;
  start.master_addr = !options_.master_addr.empty()  ? options_.master_addr
                      : !options_.local_addr.empty() ? options_.local_addr
                      : options_.nodes > 1           ? options_.rendezvous.host
                                                     : "127.0.0.1";
  start.master_port = master_.port;
  for (const auto& member : members_) start.world_size += member->join->ranks;
  std::map<std::string, int> of_role;
  for (const auto& member : members_) of_role[member->join->role] += member->join->ranks;
  std::map<std::string, int> before_in_role;
  for (const auto& member : members_) {
    start.node = member->node;
    start.role_world_size = of_role[member->join->role];
    start.first_role_rank = before_in_role[member->join->role];
    member->ended.reset();
    member->channel.send(to_json(start));
    start.first_rank += member->join->ranks;
    before_in_role[member->join->role] += member->join->ranks;
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

void Coordinator::decide_if_all_ended() {
  if (!std::all_of(members_.begin(), members_.end(),
                   [](const auto& member) { return member->ended.has_value(); }))
    return;
  root_cause_.reset();
  std::vector<int> codes;
  for (const auto& member : members_) {
    const Ended& ended = *member->ended;
    codes.insert(codes.end(), ended.codes.begin(), ended.codes.end());
    if (ended.first && (!root_cause_ || is_likelier_cause(*ended.first, *root_cause_)))
      root_cause_ = ended.first;
  }
  // Ranks that a signal ends do not all go at the same moment: then a lost peer is no cause.
  if (signalled_ && root_cause_ && root_cause_->code() == static_cast<int>(ExitCode::peer) && !lost_a_node_)
    root_cause_.reset();
  const int code = root_cause_ ? root_cause_->code() : common_code(codes);
  const bool again =
      root_cause_ && may_restart(code) && !signalled_ && !lost_a_node_ && generation_ < options_.max_restarts;
  const int world_size = static_cast<int>(codes.size());
  if (!again) return finish(code, root_cause_ ? describe(*root_cause_, world_size, options_.nodes) : "");
  ++generation_;
  broadcast({{"type", "say"},
             {"text", describe(*root_cause_, world_size, options_.nodes) +
                          fmt::format("\n  starting all ranks again: restart {} of {}", generation_,
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
                     [&](const auto& member) { return member == members_[0] || member->channel.closed(); });
}

void Coordinator::broadcast(const Json& message, const Member* except) {
  for (const auto& member : members_)
    if (member.get() != except && member->join) member->channel.send(message);
}

}  // namespace rondo::launch
