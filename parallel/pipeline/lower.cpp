// A rank is in the list of a step if its next action can run in that step. A blocked rank is found
// again by the action that computes its input, so no step scans blocked ranks.
#include "parallel/pipeline/lower.h"

#include "parallel/pipeline/cycle.h"
#include "support/error.h"

namespace rondo::pipeline {
namespace {

// Returns the compute action whose output `action` reads.
Action source_of(const Action& action) {
  Action source = other_end(receive_of(action));
  source.type = action.type == ActionType::forward ? ActionType::forward : ActionType::backward_input;
  return source;
}

// True where `other` is `source`, or the B that includes an I.
bool makes_same(const Action& other, const Action& source) {
  const bool same_type = source.type == ActionType::forward ? other.type == ActionType::forward
                                                            : makes_input_gradient(other.type);
  return same_type && other.stage == source.stage && other.microbatch == source.microbatch;
}

// Simulates the ranks in time steps of equal length.
class Play {
 public:
  explicit Play(const Program& program)
      : program_(program),
        forward_done_(static_cast<std::size_t>(program.stages) * program.microbatches),
        input_done_(forward_done_.size()),
        next_(program.ranks.size()),
        waits_(program.ranks.size()) {}

  // Calls run(rank, first, last, step) for each action or pair, then done(step) after each step.
  template <class Run, class Done>
  void play(Run run, Done done) {
    std::vector<std::size_t> current, next;
    for (std::size_t rank = 0; rank < next_.size(); ++rank) wait_or_join(rank, current);
    for (std::int64_t step = 0; !current.empty(); ++step) {
      for (const std::size_t rank : current) {
        const std::size_t first = next_[rank], last = end_of(rank);
        run(rank, first, last, step);
        next_[rank] = last;
      }
      done(step);
      next.clear();
      // The outputs of a step are visible in the next one.
      for (const std::size_t rank : current) {
        const auto [first, last] = range_before(rank);
        for (std::size_t i = first; i < last; ++i) mark(program_.ranks[rank][i]);
      }
      for (const std::size_t rank : current) {
        const auto [first, last] = range_before(rank);
        for (std::size_t i = first; i < last; ++i) wake(program_.ranks[rank][i], next);
        wait_or_join(rank, next);
      }
      current.swap(next);
    }
    for (std::size_t rank = 0; rank < next_.size(); ++rank)
      if (next_[rank] < program_.ranks[rank].size()) fail_at(rank);
  }

 private:
  const Action& action(std::size_t rank) const { return program_.ranks[rank][next_[rank]]; }
  std::size_t end_of(std::size_t rank) const { return next_[rank] + (action(rank).with_next ? 2 : 1); }
  // Returns the range of the actions that the rank ran last.
  std::pair<std::size_t, std::size_t> range_before(std::size_t rank) const {
    const std::size_t last = next_[rank];
    const bool pair = last >= 2 && program_.ranks[rank][last - 2].with_next;
    return {last - (pair ? 2 : 1), last};
  }

  bool is_done(const Action& source) const {
    return (source.type == ActionType::forward ? forward_done_ : input_done_)[program_.index(source)];
  }
  void mark(const Action& a) {
    if (a.type == ActionType::forward) forward_done_[program_.index(a)] = true;
    if (makes_input_gradient(a.type)) input_done_[program_.index(a)] = true;
  }
  // True where the action's input comes from another rank and is not computed yet. Inputs from its
  // own rank come before it.
  bool must_wait(const Action& a) const {
    return is_compute(a.type) && program_.reads_message(a) && !is_done(source_of(a));
  }
  bool can_run(std::size_t rank) const {
    for (std::size_t i = next_[rank]; i < end_of(rank); ++i)
      if (must_wait(program_.ranks[rank][i])) return false;
    return true;
  }
  void wait_or_join(std::size_t rank, std::vector<std::size_t>& list) {
    if (next_[rank] == program_.ranks[rank].size()) return;
    waits_[rank] = !can_run(rank);
    if (!waits_[rank]) list.push_back(rank);
  }
  // Continues the rank that reads the output of `source`, unless it waits for another input.
  void wake(const Action& source, std::vector<std::size_t>& list) {
    const bool forward = source.type == ActionType::forward;
    if (!forward && !makes_input_gradient(source.type)) return;
    if (source.stage == (forward ? program_.stages - 1 : 0)) return;
    const std::size_t reader = program_.rank_of_stage[forward ? source.stage + 1 : source.stage - 1];
    if (waits_[reader]) wait_or_join(reader, list);
  }

  // Returns the input that a blocked rank waits for.
  Wait wait_of(std::size_t rank) const {
    std::size_t at = next_[rank];
    if (!must_wait(program_.ranks[rank][at])) ++at;  // the other action of its pair
    const Action source = source_of(program_.ranks[rank][at]);
    return {at, static_cast<std::size_t>(program_.rank_of_stage[source.stage]),
            [source](const Action& other) { return makes_same(other, source); }};
  }

  [[noreturn]] void fail_at(std::size_t rank) const {
    throw Error(ExitCode::config, std::string(kDeadlock) + cycle_of(program_, rank, [&](std::size_t other) {
                                    return wait_of(other);
                                  }));
  }

  const Program& program_;
  std::vector<bool> forward_done_, input_done_;
  std::vector<std::size_t> next_;
  std::vector<bool> waits_;
};

}  // namespace

TimeSteps time_steps(const Program& program) {
  TimeSteps steps;
  for (const auto& actions : program.ranks) steps.emplace_back(actions.size());
  Play(program).play(
      [&](std::size_t rank, std::size_t first, std::size_t last, std::int64_t step) {
        for (std::size_t i = first; i < last; ++i) steps[rank][i] = step;
      },
      [](std::int64_t) {});
  return steps;
}

Program lower(const Program& program) {
  Program lowered = program;
  for (auto& actions : lowered.ranks) actions.clear();
  std::vector<std::int32_t> weight_gradients(program.stages);
  std::vector<bool> reduced(program.stages);
  for (const auto& actions : program.ranks)
    for (const Action& action : actions)
      if (action.type == ActionType::reduce_gradient) reduced[action.stage] = true;
  std::vector<Action> sends, reductions;  // of this step
  const auto run = [&](std::size_t rank, std::size_t first, std::size_t last, std::int64_t) {
    const std::vector<Action>& actions = program.ranks[rank];
    for (std::size_t i = first; i < last; ++i) {
      const Action& action = actions[i];
      lowered.ranks[rank].push_back(action);
      const bool forward = action.type == ActionType::forward;
      if (!forward && !makes_input_gradient(action.type)) continue;
      if (action.stage == (forward ? program.stages - 1 : 0)) continue;
      const Action send = send_of(action);
      if (program.peer_of(send) != static_cast<std::int32_t>(rank)) sends.push_back(send);
    }
    for (std::size_t i = first; i < last; ++i)
      if (makes_weight_gradient(actions[i].type) &&
          ++weight_gradients[actions[i].stage] == program.microbatches && !reduced[actions[i].stage])
        reductions.push_back({-1, actions[i].stage, ActionType::reduce_gradient, false});
  };
  const auto exchange = [&](std::int64_t) {
    for (const Action& send : sends) {
      lowered.ranks[program.rank_of_stage[send.stage]].push_back(send);
      lowered.ranks[program.peer_of(send)].push_back(other_end(send));
    }
    for (const Action& reduction : reductions)
      lowered.ranks[program.rank_of_stage[reduction.stage]].push_back(reduction);
    sends.clear();
    reductions.clear();
  };
  Play(program).play(run, exchange);
  return lowered;
}

}  // namespace rondo::pipeline
