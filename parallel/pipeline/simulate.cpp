// Times do not depend on the order in which ranks are simulated. An action begins at the maximum of
// the end of the previous one and the arrivals of its inputs. So a rank runs until it reads a
// message with an unknown arrival time, and continues when the time is known.
#include "parallel/pipeline/simulate.h"

#include <algorithm>
#include <utility>

#include "support/error.h"

namespace rondo::pipeline {
namespace {

constexpr double kUnknown = -1;

class Clock {
 public:
  Clock(const Program& program, const Times& times, bool with_spans)
      : program_(program),
        times_(times),
        with_spans_(with_spans),
        edges_(program),
        edge_free_(edges_.ends.size()),
        next_(program.ranks.size()),
        now_(program.ranks.size()),
        waits_(program.ranks.size()),
        unsharded_(program.stages),
        spans_(program.ranks.size()) {
    const std::size_t ranks = program.ranks.size();
    timeline_.busy.assign(ranks, 0);
    timeline_.last.assign(ranks, 0);
    timeline_.first.assign(ranks, kUnknown);
    for (std::vector<double>& arrived : arrived_)
      arrived.assign(static_cast<std::size_t>(program.stages) * program.microbatches, kUnknown);
  }

  Timeline run() {
    for (std::size_t rank = next_.size(); rank-- > 0;) ready_.push_back(rank);
    while (!ready_.empty()) {
      const std::size_t rank = ready_.back();
      ready_.pop_back();
      waits_[rank] = false;
      while (next_[rank] < program_.ranks[rank].size() && step(rank)) {
      }
    }
    for (std::size_t rank = 0; rank < next_.size(); ++rank) {
      RONDO_ASSERT(next_[rank] == program_.ranks[rank].size(), "simulate() takes a proven program");
      timeline_.end = std::max(timeline_.end, timeline_.last[rank]);
      timeline_.spans.insert(timeline_.spans.end(), spans_[rank].begin(), spans_[rank].end());
    }
    return std::move(timeline_);
  }

 private:
  // 0 for messages to the next stage, 1 for messages to the previous one.
  static int direction_of(const Action& send) { return to_next_stage(send.type) ? 0 : 1; }

  bool step(std::size_t rank) {
    const Action& action = program_.ranks[rank][next_[rank]];
    if (is_message(action.type)) {
      if (is_send(action.type)) leave(action, now_[rank]);
      ++next_[rank];
      return true;
    }
    const Action* together = action.with_next ? &program_.ranks[rank][next_[rank] + 1] : nullptr;
    gather(rank, action);
    if (together != nullptr) gather(rank, *together);
    double begin = now_[rank];
    if (!wait_for_read(rank, action, begin)) return false;
    if (together != nullptr && !wait_for_read(rank, *together, begin)) return false;
    next_[rank] += together != nullptr ? 2 : 1;
    if (!is_compute(action.type)) return true;
    const double duration =
        together != nullptr ? times_.of_pair(action, *together) : times_.of(action.stage).of(action.type);
    work(rank, begin, duration);
    if (with_spans_)
      spans_[rank].push_back({static_cast<std::int32_t>(rank), action,
                              together != nullptr ? *together : Action{}, begin, now_[rank]});
    return true;
  }

  void work(std::size_t rank, double begin, double duration) {
    if (timeline_.first[rank] == kUnknown) timeline_.first[rank] = begin;
    now_[rank] = timeline_.last[rank] = begin + duration;
    timeline_.busy[rank] += duration;
  }

  // Gathers the weights that the action needs, before it waits for any message.
  void gather(std::size_t rank, const Action& action) {
    if (action.type == ActionType::reshard) unsharded_[action.stage] = 0;
    if (!is_compute(action.type) && action.type != ActionType::unshard) return;
    if (std::exchange(unsharded_[action.stage], 1) != 0) return;
    if (const double duration = times_.of(action.stage).unshard; duration > 0)
      work(rank, now_[rank], duration);
  }

  // Moves `begin` to the arrival of the action's input. Returns false where it is unknown.
  bool wait_for_read(std::size_t rank, const Action& action, double& begin) {
    if (!is_compute(action.type) || !program_.reads_message(action)) return true;
    const Action send = other_end(receive_of(action));
    const std::size_t index = program_.index(send);
    if (arrived_[direction_of(send)][index] == kUnknown) {
      waits_[rank] = true;
      return false;
    }
    begin = std::max(begin, arrived_[direction_of(send)][index]);
    return true;
  }

  // Sends a message: sets its arrival time and wakes its receiver.
  void leave(const Action& send, double now) {
    double& arrival = edge_free_[edges_.of(send)];
    arrival = std::max(arrival, now) + times_.of_message(send);
    arrived_[direction_of(send)][program_.index(send)] = arrival;
    const std::size_t receiver = program_.peer_of(send);
    if (!waits_[receiver]) return;
    waits_[receiver] = false;
    ready_.push_back(receiver);
  }

  const Program& program_;
  const Times& times_;
  const bool with_spans_;
  const Edges edges_;
  std::vector<double> edge_free_;  // arrival of the latest message on each edge
  std::vector<std::size_t> next_;
  std::vector<double> now_;
  std::vector<bool> waits_;
  std::vector<std::size_t> ready_;
  std::vector<char> unsharded_;                 // by stage
  std::array<std::vector<double>, 2> arrived_;  // by direction, and index of the send
  std::vector<std::vector<Span>> spans_;
  Timeline timeline_;
};

}  // namespace

double StageTimes::of(ActionType type) const {
  switch (type) {
    case ActionType::forward:
      return forward;
    case ActionType::backward:
      return backward_input + backward_weight;
    case ActionType::backward_input:
      return backward_input;
    case ActionType::backward_weight:
      return backward_weight;
    default:
      return 0;
  }
}

double Times::of_message(const Action& send) const {
  return messages[messages.size() == 1 ? 0 : std::min(send.stage, other_end(send).stage)];
}

double Timeline::bubble_share() const {
  double computing = 0;
  for (const double rank : busy) computing += rank;
  return end > 0 ? 1 - computing / (end * static_cast<double>(busy.size())) : 0;
}

double Timeline::inner_bubble_share() const {
  double computing = 0, active = 0;
  for (std::size_t rank = 0; rank < busy.size(); ++rank) {
    computing += busy[rank];
    active += last[rank] - first[rank];
  }
  return active > 0 ? 1 - computing / active : 0;
}

double Times::of_pair(const Action& forward, const Action& backward) const {
  const auto pair = pairs.find({forward.stage, backward.stage});
  if (pair != pairs.end()) return pair->second;
  return (of(forward.stage).of(forward.type) + of(backward.stage).of(backward.type)) *
         of(forward.stage).overlap;
}

Timeline simulate(const Program& lowered, const Times& times, bool with_spans) {
  return Clock(lowered, times, with_spans).run();
}

}  // namespace rondo::pipeline
