// Without buffers, both ranks of a message must be at its two ends. The second one to arrive finds
// the first one waiting, and both continue. With buffers, a send sets a flag that the receive
// reads. A blocked rank continues when its partner arrives, so it is polled at most once in vain.
#include "parallel/pipeline/prove.h"

#include <fmt/format.h>

#include "parallel/pipeline/cycle.h"
#include "parallel/pipeline/lower.h"
#include "support/error.h"

namespace rondo::pipeline {
namespace {

class Rendezvous {
 public:
  Rendezvous(const Program& program, Buffers buffers)
      : program_(program),
        buffered_(buffers == Buffers::unlimited),
        next_(program.ranks.size()),
        waits_(program.ranks.size()) {
    if (!buffered_) return;
    const std::size_t count = static_cast<std::size_t>(program.stages) * program.microbatches;
    for (std::vector<bool>& sent : sent_) sent.assign(count, false);
  }

  std::string run() {
    for (std::size_t rank = next_.size(); rank-- > 0;) ready_.push_back(rank);
    while (!ready_.empty()) {
      const std::size_t rank = ready_.back();
      ready_.pop_back();
      while (next_[rank] < program_.ranks[rank].size() && step(rank)) {
      }
    }
    for (std::size_t rank = 0; rank < next_.size(); ++rank)
      if (next_[rank] < program_.ranks[rank].size())
        return cycle_of(program_, rank, [&](std::size_t waiting) {
          const Action& action = program_.ranks[waiting][next_[waiting]];
          return Wait{next_[waiting], static_cast<std::size_t>(program_.peer_of(action)),
                      [other = other_end(action)](const Action& a) { return a == other; }};
        });
    return "";
  }
  std::int64_t events() const { return events_; }

 private:
  // Runs the rank's next action where it can.
  bool step(std::size_t rank) {
    ++events_;
    const Action& action = program_.ranks[rank][next_[rank]];
    if (is_message(action.type) && !exchange(action)) {
      waits_[rank] = true;
      return false;
    }
    ++next_[rank];
    return true;
  }

  bool exchange(const Action& action) {
    const std::size_t peer = program_.peer_of(action);
    if (buffered_ && is_receive(action.type)) return sent_of(other_end(action));
    const bool at_other_end =
        next_[peer] < program_.ranks[peer].size() && program_.ranks[peer][next_[peer]] == other_end(action);
    if (buffered_) sent_of(action) = true;
    if (at_other_end && waits_[peer]) {
      ++next_[peer];
      waits_[peer] = false;
      ready_.push_back(peer);
      return true;
    }
    return buffered_;
  }

  std::vector<bool>::reference sent_of(const Action& send) {
    return sent_[to_next_stage(send.type) ? 0 : 1][program_.index(send)];
  }

  const Program& program_;
  const bool buffered_;
  std::array<std::vector<bool>, 2> sent_;  // activations, gradients
  std::vector<std::size_t> next_, ready_;
  std::vector<bool> waits_;  // at a message whose partner has not arrived
  std::int64_t events_ = 0;
};

// Counts the messages of each edge and checks that both ends have the same order.
std::vector<Edge> edges_of(const Program& program) {
  const Edges numbers(program);
  std::vector<Edge> edges;
  for (const auto& [from, to] : numbers.ends) edges.push_back({from, to, 0});
  // The index of each message on its edge, by the order of the sends.
  std::array<std::vector<std::int64_t>, 2> places;
  for (auto& of_direction : places)
    of_direction.resize(static_cast<std::size_t>(program.stages) * program.microbatches);
  const auto place = [&](const Action& send) -> std::int64_t& {
    return places[to_next_stage(send.type) ? 0 : 1][program.index(send)];
  };
  for (const auto& actions : program.ranks)
    for (const Action& action : actions)
      if (is_send(action.type)) place(action) = edges[numbers.of(action)].messages++;
  std::vector<std::int64_t> received(edges.size());
  for (std::size_t rank = 0; rank < program.ranks.size(); ++rank)
    for (std::size_t i = 0; i < program.ranks[rank].size(); ++i) {
      const Action& action = program.ranks[rank][i];
      if (!is_receive(action.type)) continue;
      const Action send = other_end(action);
      const std::size_t edge = numbers.of(send);
      const std::int64_t number = received[edge]++;
      if (place(send) == number) continue;
      throw Error(
          ExitCode::config,
          fmt::format("{} receives message {} of the edge from rank {} to rank {}, which is sent as "
                      "message {}; put the messages of an edge into the same order at both ends",
                      place_of(program, rank, i), number, edges[edge].from, edges[edge].to, place(send)));
    }
  return edges;
}

}  // namespace

std::string find_deadlock(const Program& lowered, Buffers buffers, std::int64_t* events) {
  Rendezvous play(lowered, buffers);
  std::string path = play.run();
  if (events != nullptr) *events = play.events();
  return path;
}

Proof prove(const Program& lowered, std::int32_t slots) {
  Proof proof;
  proof.in_flight = check(lowered, Form::lowered, slots);
  proof.actions = lowered.action_count();
  proof.edges = edges_of(lowered);
  for (const Edge& edge : proof.edges) proof.messages += edge.messages;
  const std::string path = find_deadlock(lowered, Buffers::none, &proof.events);
  if (path.empty()) return proof;
  if (find_deadlock(lowered, Buffers::unlimited).empty())
    throw Error(
        ExitCode::config,
        "deadlock unless messages are buffered: ranks wait for each other in a cycle; order sends and "
        "receives so that each pair can rendezvous, or omit all messages: lowering then adds them" +
            path);
  throw Error(ExitCode::config, kDeadlock + path);
}

Proven lower_and_prove(Program program, std::int32_t slots) {
  if (!program.has_messages()) {
    check(program, Form::compute, slots);
    program = lower(program);
  }
  Proof proof = prove(program, slots);
  return {std::move(program), std::move(proof)};
}

}  // namespace rondo::pipeline
