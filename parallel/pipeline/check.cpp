// A table holds one bit for each action type, stage and microbatch that has occurred. Ranks are
// walked one after the other. An action's inputs must come before it on its own rank, since data of
// other ranks arrives in a message. A second walk over the table finds what is missing.
#include "parallel/pipeline/check.h"

#include <fmt/format.h>

#include <algorithm>

#include "support/error.h"

namespace rondo::pipeline {
namespace {

// The bits of the table; B sets those of I and W.
constexpr std::uint16_t bit(ActionType type) { return 1u << static_cast<unsigned>(type); }
constexpr std::uint16_t kForwardDone = bit(ActionType::forward), kInputDone = bit(ActionType::backward_input),
                        kWeightDone = bit(ActionType::backward_weight);

constexpr std::uint16_t bits_of(ActionType type) {
  return type == ActionType::backward ? kInputDone | kWeightDone : bit(type);
}

class Checker {
 public:
  Checker(const Program& program, Form form, std::int32_t slots)
      : program_(program),
        lowered_(form == Form::lowered),
        slots_(slots),
        done_(static_cast<std::size_t>(program.stages) * program.microbatches),
        stages_(program.stages) {
    if (slots_ > 0) holder_.assign(static_cast<std::size_t>(program.stages) * slots_, -1);
    in_flight_.of_stage.assign(program.stages, 0);
    in_flight_.pending_of_stage.assign(program.stages, 0);
    in_flight_.of_rank.assign(program.ranks.size(), 0);
  }

  InFlight run() {
    for (rank_ = 0; rank_ < program_.ranks.size(); ++rank_) {
      rank_in_flight_ = 0;
      const std::vector<Action>& actions = program_.ranks[rank_];
      for (at_ = 0; at_ < actions.size(); ++at_) take(actions[at_]);
    }
    for (std::int32_t stage = 0; stage < program_.stages; ++stage) require_all_of(stage);
    return std::move(in_flight_);
  }

 private:
  struct Stage {
    // Microbatches with weight gradients; one past the highest microbatch with a forward, and with
    // an I.
    std::int32_t weight_gradients = 0, forward_end = 0, input_end = 0;
    bool reduced = false, is_sharded = false, is_unsharded = false;
  };

  [[noreturn]] void fail(const std::string& problem, const std::string& rule) const {
    throw Error(ExitCode::config, fmt::format("{} {}; {}", place_of(program_, rank_, at_), problem, rule));
  }
  bool has(const Action& action) const { return (done_[program_.index(action)] & bits_of(action.type)) != 0; }

  void take(const Action& action) {
    if (is_of_stage(action.type)) return take_stage(action);
    if (has(action))
      fail(action.type == ActionType::forward || is_message(action.type)
               ? "is a duplicate"
               : "is a second backward of its microbatch",
           is_message(action.type) ? "a message is sent once and received once; its slot would be used twice"
                                   : "each microbatch passes each stage once, forward and backward");
    if (is_message(action.type))
      take_message(action);
    else
      take_compute(action);
    done_[program_.index(action)] |= bits_of(action.type);
  }

  void take_compute(const Action& action) {
    Stage& stage = stages_[action.stage];
    if (stage.is_sharded && !stage.is_unsharded)
      fail("computes with sharded weights", "put UNSHARD of the stage before it");
    if (action.type != ActionType::backward_weight) require_read(action);
    if (action.type == ActionType::forward) {
      require_pair(action);
      take_slot(action);
      count(action, stage, stage.forward_end, in_flight_.of_stage);
      in_flight_.of_rank[rank_] = std::max(in_flight_.of_rank[rank_], ++rank_in_flight_);
      return;
    }
    if ((done_[program_.index(action)] & kForwardDone) == 0)
      fail("comes before its forward", "a backward reads what the forward of its microbatch saved");
    if (action.type == ActionType::backward_weight && (done_[program_.index(action)] & kInputDone) == 0)
      fail("comes before the I of its microbatch", "W reads the gradients that I computes");
    if (action.type == ActionType::backward_input)
      count(action, stage, stage.input_end, in_flight_.pending_of_stage);
    if (makes_weight_gradient(action.type)) take_weight_gradient(action, stage);
  }

  // Counts from the oldest microbatch without weight gradients to the newest one so far.
  static void count(const Action& action, const Stage& stage, std::int32_t& end,
                    std::vector<std::int32_t>& most) {
    end = std::max(end, action.microbatch + 1);
    most[action.stage] = std::max(most[action.stage], end - stage.weight_gradients);
  }

  void take_weight_gradient(const Action& action, Stage& stage) {
    if (action.microbatch != stage.weight_gradients)
      fail(fmt::format("is summed before microbatch {}", stage.weight_gradients),
           "weight gradients of a stage are summed in the order of microbatches, so that the result has the "
           "bits of gradient accumulation");
    if (stage.reduced)
      fail("adds to gradients that are already reduced", "put REDUCE_GRAD after all of them");
    ++stage.weight_gradients;
    --rank_in_flight_;
    if (slots_ > 0) slot(action) = -1;
  }

  // Requires the action's input: computed earlier on its own rank, or received from another.
  void require_read(const Action& action) const {
    const bool forward = action.type == ActionType::forward;
    if (action.stage == (forward ? 0 : program_.stages - 1)) return;
    if (!program_.reads_message(action)) {
      Action source = action;
      forward ? --source.stage : ++source.stage;
      if (!forward) source.type = ActionType::backward_input;
      if (!has(source))
        fail(fmt::format("comes before its input from stage {}", source.stage),
             "stages of one rank run in the order of their data");
    } else if (lowered_ && !has(receive_of(action))) {
      fail(fmt::format("reads {}, which does not come before it", print(receive_of(action))),
           "receive what another rank computed before it is read");
    }
  }

  void require_pair(const Action& action) const {
    if (!action.with_next) return;
    const std::vector<Action>& actions = program_.ranks[rank_];
    if (at_ + 1 >= actions.size() || !makes_input_gradient(actions[at_ + 1].type))
      fail("runs together with no backward", "OVERLAP_F_B is a pair of a forward and a backward");
    if (program_.index(actions[at_ + 1]) == program_.index(action))
      fail("runs together with its own backward", "neither action of a pair may read the other's output");
  }

  std::int32_t& slot(const Action& action) {
    return holder_[static_cast<std::size_t>(action.stage) * slots_ + action.microbatch % slots_];
  }
  void take_slot(const Action& action) {
    if (slots_ == 0) return;
    if (slot(action) >= 0)
      fail(fmt::format("uses slot {} of stage {}, which microbatch {} holds until its backward",
                       action.microbatch % slots_, action.stage, slot(action)),
           fmt::format("{} slots allow that many microbatches in flight per stage", slots_));
    slot(action) = action.microbatch;
  }

  void take_message(const Action& action) {
    const bool of_forward =
        action.type == ActionType::send_forward || action.type == ActionType::receive_forward;
    const bool to_next =
        action.type == ActionType::send_forward || action.type == ActionType::receive_backward;
    if (action.stage == (to_next ? program_.stages - 1 : 0))
      fail("has no other end", fmt::format("stage {} is at the end of the pipeline", action.stage));
    if (program_.peer_of(action) == static_cast<std::int32_t>(rank_))
      fail("is a message of a rank to itself", "adjacent stages of one rank need no message");
    if (is_send(action.type) &&
        (done_[program_.index(action)] & (of_forward ? kForwardDone : kInputDone)) == 0)
      fail("comes before its data is computed", of_forward ? "send after F" : "send after B or I");
  }

  void take_stage(const Action& action) {
    Stage& stage = stages_[action.stage];
    if (action.type == ActionType::reduce_gradient) {
      if (stage.reduced) fail("reduces the gradients of its stage twice", "use one REDUCE_GRAD per step");
      if (stage.weight_gradients < program_.microbatches)
        fail(fmt::format("comes after {} of {} weight gradients", stage.weight_gradients,
                         program_.microbatches),
             "put REDUCE_GRAD after all of them");
      stage.reduced = true;
      return;
    }
    const bool unshard = action.type == ActionType::unshard;
    if (stage.is_unsharded == unshard)
      fail(unshard ? "gathers weights that are already gathered" : "frees weights that are not gathered",
           "alternate UNSHARD and RESHARD of a stage");
    stage.is_sharded = true;
    stage.is_unsharded = unshard;
  }

  void require_all_of(std::int32_t stage) const {
    const auto missing = [&](const std::string& what, const std::string& rule) {
      throw Error(ExitCode::config,
                  fmt::format("rank {}, stage {}: {}; {}", program_.rank_of_stage[stage], stage, what, rule));
    };
    for (std::int32_t m = 0; m < program_.microbatches; ++m) {
      const auto require = [&](ActionType type, const std::string& rule) {
        const Action action{m, static_cast<std::uint16_t>(stage), type, false};
        if (!has(action)) missing(print(action) + " is missing", rule);
      };
      const std::string rule = "each microbatch passes each stage once, forward and backward";
      require(ActionType::forward, rule);
      require(ActionType::backward_input, rule + " (I and W, or B)");
      require(ActionType::backward_weight, rule + " (I and W, or B)");
      if (!lowered_) continue;
      for (const ActionType reader : {ActionType::forward, ActionType::backward_input}) {
        const Action reads{m, static_cast<std::uint16_t>(stage), reader, false};
        if (!program_.reads_message(reads)) continue;
        const Action send = other_end(receive_of(reads));
        if (!has(send))
          missing(fmt::format("{} is received, but rank {} does not send it: {} is missing",
                              print(other_end(send)), program_.rank_of_stage[send.stage], print(send)),
                  "a message has a send and a receive");
      }
    }
    if (lowered_ && !stages_[stage].reduced)
      missing("its gradients are never reduced", "put REDUCE_GRAD after its last W or B");
  }

  const Program& program_;
  const bool lowered_;
  const std::int32_t slots_;
  std::vector<std::uint16_t> done_;
  std::vector<Stage> stages_;
  std::vector<std::int32_t> holder_;  // the microbatch in each slot; -1 for a free slot
  InFlight in_flight_;
  std::size_t rank_ = 0, at_ = 0;
  std::int32_t rank_in_flight_ = 0;
};

}  // namespace

std::string place_of(const Program& program, std::size_t rank, std::size_t action) {
  return fmt::format("rank {}, action {} ({})", rank, action, print(program.ranks[rank][action]));
}

InFlight check(const Program& program, Form form, std::int32_t slots) {
  return Checker(program, form, slots).run();
}

}  // namespace rondo::pipeline
