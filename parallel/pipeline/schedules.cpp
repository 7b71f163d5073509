// A rank's actions take the microbatches of each stage in ascending order. So a generator only
// names the next stage, and RankActions counts the microbatches. limit_pending() moves only W
// forward, since no other rank waits for W.
#include "parallel/pipeline/schedules.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <utility>

#include "parallel/pipeline/check.h"
#include "support/error.h"
#include "support/text/nearest.h"

namespace rondo::pipeline {
namespace {

class RankActions {
 public:
  RankActions(const PipelineShape& shape, std::int32_t rank, StageStyle style) {
    for (std::int32_t chunk = 0; chunk < shape.stages_per_rank; ++chunk) {
      const std::int32_t place = style == StageStyle::v && chunk % 2 == 1 ? shape.ranks - 1 - rank : rank;
      chunks_.push_back({static_cast<std::uint16_t>(chunk * shape.ranks + place)});
    }
    actions.reserve(3 * static_cast<std::size_t>(shape.stages_per_rank) * shape.microbatches);
  }

  // Each adds an action for the next microbatch of the rank's stage number `chunk`.
  void forward(std::int32_t chunk) { add(ActionType::forward, chunk, chunks_[chunk].forwards++); }
  void backward(std::int32_t chunk) { add(ActionType::backward, chunk, chunks_[chunk].backwards++); }
  void backward_input(std::int32_t chunk) {
    pending_.emplace_back(chunk, chunks_[chunk].backwards);
    add(ActionType::backward_input, chunk, chunks_[chunk].backwards++);
  }
  // Adds the W of the oldest pending I, if there is one.
  void oldest_weight() {
    if (!pending_.empty()) weight(pending_.begin());
  }
  // Adds the W of the oldest pending I of one stage. Returns false where there is none.
  bool oldest_weight_of(std::int32_t chunk) {
    const auto oldest = std::find_if(pending_.begin(), pending_.end(),
                                     [&](const auto& pending) { return pending.first == chunk; });
    if (oldest == pending_.end()) return false;
    weight(oldest);
    return true;
  }
  void forward_with_backward(std::int32_t forward_chunk, std::int32_t backward_chunk) {
    forward(forward_chunk);
    actions.back().with_next = true;
    backward(backward_chunk);
  }
  std::int32_t forwards(std::int32_t chunk) const { return chunks_[chunk].forwards; }

  std::vector<Action> actions;

 private:
  struct Chunk {
    std::uint16_t stage;
    std::int32_t forwards = 0, backwards = 0;
  };
  using Pending = std::deque<std::pair<std::int32_t, std::int32_t>>;  // chunk, microbatch
  void weight(const Pending::const_iterator& pending) {
    add(ActionType::backward_weight, pending->first, pending->second);
    pending_.erase(pending);
  }
  void add(ActionType type, std::int32_t chunk, std::int32_t microbatch) {
    actions.push_back({microbatch, chunks_[chunk].stage, type, false});
  }

  std::vector<Chunk> chunks_;
  Pending pending_;
};

template <class Fill>
Program filled(const PipelineShape& shape, StageStyle style, Fill fill) {
  Program program{shape.stages(), shape.microbatches, {}, {}};
  for (std::int32_t stage = 0; stage < program.stages; ++stage)
    program.rank_of_stage.push_back(rank_of(stage, shape.ranks, style));
  for (std::int32_t rank = 0; rank < shape.ranks; ++rank) {
    RankActions actions(shape, rank, style);
    fill(rank, actions);
    program.ranks.push_back(std::move(actions.actions));
  }
  return program;
}

// The rounds of interleaved schedules: a round of microbatches runs through one stage of a rank,
// then through the next.
struct Rounds {
  explicit Rounds(const PipelineShape& shape)
      : stages(shape.stages_per_rank),
        size(shape.microbatches / std::max(1, shape.microbatches / shape.ranks)),
        count(shape.stages_per_rank * shape.microbatches) {}
  std::int32_t forward_chunk(std::int32_t i) const { return i / size % stages; }
  std::int32_t backward_chunk(std::int32_t i) const { return stages - 1 - forward_chunk(i); }
  // Returns the forwards before the first backward: `hop` more for each later rank.
  std::int32_t warmup(std::int32_t ranks_behind, std::int32_t hop) const {
    return std::min((stages - 1) * size + hop * ranks_behind, count);
  }
  std::int32_t stages, size, count;
};

// Moves W forward in the actions of ranks so that at most `most` are pending.
class PendingLimit {
 public:
  PendingLimit(const Program& program, std::int32_t most)
      : program_(program), most_(most), pending_(program.stages), summed_(program.stages) {}

  std::vector<Action> limited(std::size_t rank) {
    const std::vector<Action>& actions = program_.ranks[rank];
    made_.clear();
    for (std::size_t i = 0; i < actions.size(); ++i) {
      if (actions[i].with_next) make_room_for(actions[i + 1]);  // nothing comes between a pair
      make_room_for(actions[i]);
      add(actions[i]);
    }
    return std::move(made_);
  }

 private:
  void make_room_for(const Action& action) {
    std::deque<std::int32_t>& own = pending_[action.stage];
    if (action.type == ActionType::backward_input && !own.empty() && std::ssize(own) == most_)
      add({own.front(), action.stage, ActionType::backward_weight, false});
  }

  void add(Action action) {
    std::int32_t& summed = summed_[action.stage];
    std::deque<std::int32_t>& own = pending_[action.stage];
    if (action.type == ActionType::backward_weight && action.microbatch < summed) return;  // moved before
    if (action.type == ActionType::backward_input && most_ == 0) action.type = ActionType::backward;
    if (makes_weight_gradient(action.type) && action.microbatch != summed++)
      throw Error(ExitCode::config,
                  fmt::format("{} would have to come before the I of microbatch {}; put I into the order "
                              "of microbatches, or allow more pending microbatches",
                              print(action), summed - 1));
    if (action.type == ActionType::backward_input) own.push_back(action.microbatch);
    if (action.type == ActionType::backward_weight) std::erase(own, action.microbatch);
    made_.push_back(action);
  }

  const Program& program_;
  const std::int32_t most_;
  std::vector<std::deque<std::int32_t>> pending_;  // microbatches by stage, oldest first
  std::vector<std::int32_t> summed_;               // microbatches with weight gradients, by stage
  std::vector<Action> made_;
};

}  // namespace

Program gpipe(const PipelineShape& shape) {
  return filled(shape, StageStyle::loop, [&](std::int32_t, RankActions& actions) {
    for (std::int32_t m = 0; m < shape.microbatches; ++m) actions.forward(0);
    for (std::int32_t m = 0; m < shape.microbatches; ++m) actions.backward(0);
  });
}

Program one_f_one_b(const PipelineShape& shape) {
  return filled(shape, StageStyle::loop, [&](std::int32_t rank, RankActions& actions) {
    const std::int32_t warmup = std::min(shape.ranks - 1 - rank, shape.microbatches);
    for (std::int32_t m = 0; m < warmup; ++m) actions.forward(0);
    for (std::int32_t m = warmup; m < shape.microbatches; ++m) {
      actions.forward(0);
      actions.backward(0);
    }
    for (std::int32_t m = 0; m < warmup; ++m) actions.backward(0);
  });
}

Program interleaved_1f1b(const PipelineShape& shape) {
  const Rounds rounds(shape);
  return filled(shape, StageStyle::loop, [&](std::int32_t rank, RankActions& actions) {
    const std::int32_t warmup = rounds.warmup(shape.ranks - 1 - rank, 2);
    for (std::int32_t i = 0; i < warmup; ++i) actions.forward(rounds.forward_chunk(i));
    for (std::int32_t i = 0; i < rounds.count; ++i) {
      if (warmup + i < rounds.count) actions.forward(rounds.forward_chunk(warmup + i));
      actions.backward(rounds.backward_chunk(i));
    }
  });
}

Program interleaved_zero_bubble(const PipelineShape& shape) {
  const Rounds rounds(shape);
  return filled(shape, StageStyle::loop, [&](std::int32_t rank, RankActions& actions) {
    const std::int32_t warmup = rounds.warmup(shape.ranks - 1 - rank, 1);
    for (std::int32_t i = 0; i < warmup; ++i) actions.forward(rounds.forward_chunk(i));
    for (std::int32_t i = 0; i < rounds.count; ++i) {
      if (warmup + i < rounds.count) actions.forward(rounds.forward_chunk(warmup + i));
      actions.backward_input(rounds.backward_chunk(i));
      if (i >= rank) actions.oldest_weight();  // `rank` W stay pending
    }
    for (std::int32_t i = 0; i < rank; ++i) actions.oldest_weight();
  });
}

Program zbv_zero_bubble(const PipelineShape& shape) {
  // The pattern needs 2 ranks - 1 microbatches; a shorter step keeps the existing ones.
  PipelineShape whole = shape;
  whole.microbatches = std::max(shape.microbatches, 2 * shape.ranks - 1);
  Program program = filled(whole, StageStyle::v, [&](std::int32_t rank, RankActions& actions) {
    const std::int32_t behind = shape.ranks - rank;  // this rank and later ones
    const auto backward_split = [&](std::int32_t chunk) {
      actions.backward_input(chunk);
      actions.oldest_weight();
    };
    for (std::int32_t i = 0; i < 2 * behind - 1; ++i) actions.forward(0);
    for (std::int32_t i = 0; i < rank; ++i) {
      actions.forward(1);
      actions.forward(0);
    }
    for (std::int32_t i = 0; i < behind; ++i) {
      actions.forward(1);
      backward_split(1);
    }
    while (actions.forwards(1) < whole.microbatches) {
      if (actions.forwards(0) < whole.microbatches) actions.forward(0);
      backward_split(0);
      actions.forward(1);
      backward_split(1);
    }
    for (std::int32_t i = 0; i < rank; ++i) {
      actions.backward_input(0);
      actions.backward_input(1);
    }
    for (std::int32_t i = 0; i < behind; ++i) {
      actions.backward_input(0);
      actions.oldest_weight_of(0);
    }
    for (const std::int32_t chunk : {1, 0})
      while (actions.oldest_weight_of(chunk)) {
      }
  });
  program.microbatches = shape.microbatches;
  for (std::vector<Action>& actions : program.ranks)
    std::erase_if(actions, [&](const Action& action) { return action.microbatch >= shape.microbatches; });
  return program;
}

Program dual_pipe_v(const PipelineShape& shape) {
  return filled(shape, StageStyle::v, [&](std::int32_t rank, RankActions& actions) {
    const std::int32_t behind = shape.ranks - 1 - rank, up_to_here = rank + 1;
    for (std::int32_t i = 0; i < 2 * behind; ++i) actions.forward(0);
    for (std::int32_t i = 0; i < up_to_here; ++i) {
      actions.forward(0);
      actions.forward(1);
    }
    for (std::int32_t i = 0; i < behind; ++i) {
      actions.backward_input(1);
      actions.oldest_weight();
      actions.forward(1);
    }
    const std::int32_t steady = shape.microbatches - 2 * shape.ranks + up_to_here;
    for (std::int32_t i = 0; i < steady; ++i) {
      if (i == 0 && behind == 0) {
        // The last rank's first backward waits for no other rank. Without the forward it
        // ends sooner.
        actions.forward(0);
        actions.backward(1);
      } else {
        actions.forward_with_backward(0, 1);
      }
      actions.forward_with_backward(1, 0);
    }
    for (std::int32_t i = 0; i < behind; ++i) {
      actions.backward(1);
      actions.forward_with_backward(1, 0);
    }
    // From the middle on W is delayed, so that other ranks receive the output of I sooner.
    const std::int32_t whole = up_to_here / 2 * 2 + (rank % 2 == 0 ? 1 : 0);
    for (std::int32_t i = 0; i < 2 * up_to_here; ++i) {
      const std::int32_t chunk = i % 2 == 0 ? 1 : 0;
      i < whole ? actions.backward(chunk) : actions.backward_input(chunk);
    }
    for (std::int32_t i = 0; i < behind; ++i) {
      actions.oldest_weight();
      actions.backward_input(0);
    }
    for (std::int32_t i = 0; i < up_to_here; ++i) actions.oldest_weight();
  });
}

Program overlapped(std::int32_t microbatches) {
  return filled({1, 1, microbatches}, StageStyle::loop, [&](std::int32_t, RankActions& actions) {
    actions.forward(0);
    for (std::int32_t m = 1; m < microbatches; ++m) actions.forward_with_backward(0, 0);
    actions.backward(0);
  });
}

const std::vector<Schedule>& schedules() {
  constexpr std::int32_t any = kMaxStages;
  static const std::vector<Schedule> list = {
      {"GPipe", StageStyle::loop, 1, 1, 1, gpipe},
      {"1F1B", StageStyle::loop, 1, 1, 1, one_f_one_b},
      {"Interleaved1F1B", StageStyle::loop, 2, any, 2, interleaved_1f1b},
      {"InterleavedZeroBubble", StageStyle::loop, 1, any, 2, interleaved_zero_bubble},
      {"ZBVZeroBubble", StageStyle::v, 2, 2, 2, zbv_zero_bubble},
      {"DualPipeV", StageStyle::v, 2, 2, 2, dual_pipe_v},
  };
  return list;
}

const Schedule* find_schedule(std::string_view name) {
  for (const Schedule& schedule : schedules())
    if (edit_distance(schedule.name, name) == 0) return &schedule;
  return nullptr;
}

const Schedule& schedule_named(const std::string& name) {
  if (const Schedule* const schedule = find_schedule(name)) return *schedule;
  std::vector<std::string> names;
  for (const Schedule& schedule : schedules()) names.push_back(schedule.name);
  throw Error(ExitCode::usage,
              fmt::format("pipeline: unknown schedule \"{}\"{}; `rondo pipeline --help` lists them", name,
                          did_you_mean(name, names)));
}

std::optional<BrokenShape> broken_shape(const Schedule& schedule, const PipelineShape& shape) {
  using enum BrokenShape::Number;
  const std::int32_t v = shape.stages_per_rank, m = shape.microbatches;
  const std::int32_t least = schedule.least_stages_per_rank, most = schedule.most_stages_per_rank;
  if (v < least || v > most)
    return BrokenShape{stages_per_rank, fmt::format("must be {}{} with {}", least == most ? "" : "at least ",
                                                    least, schedule.name)};
  if (static_cast<std::int64_t>(shape.ranks) * v > kMaxStages)
    return BrokenShape{stages_per_rank,
                       fmt::format("must give at most {} stages on {} ranks", kMaxStages, shape.ranks)};
  if (schedule.make == interleaved_1f1b || schedule.make == interleaved_zero_bubble) {
    const std::int32_t rounds = std::max(1, m / shape.ranks);
    if (m % rounds != 0)
      return BrokenShape{microbatches,
                         fmt::format("must be a multiple of {}, the rounds of {} on {} ranks, such as {}",
                                     rounds, schedule.name, shape.ranks, m / rounds * rounds)};
  }
  if (schedule.make == dual_pipe_v && m < shape.stages())
    return BrokenShape{microbatches, fmt::format("must be at least the number of stages, {}, with {}",
                                                 shape.stages(), schedule.name)};
  if (const std::int64_t each = std::int64_t{3} * shape.stages(); each * m > kMaxActions)
    return BrokenShape{microbatches,
                       fmt::format("must be at most {} with {} stages: a program has at most {} actions",
                                   kMaxActions / each, shape.stages(), kMaxActions)};
  return std::nullopt;
}

Program make_program(const Schedule& schedule, const PipelineShape& shape) {
  const std::optional<BrokenShape> broken = broken_shape(schedule, shape);
  if (!broken) return schedule.make(shape);
  const bool of_stages = broken->number == BrokenShape::Number::stages_per_rank;
  throw Error(ExitCode::usage,
              fmt::format("pipeline: {} \"{}\" {}", of_stages ? "--stages-per-rank" : "--microbatches",
                          of_stages ? shape.stages_per_rank : shape.microbatches, broken->rule));
}

Program limit_pending(const Program& program, std::int32_t most) {
  const InFlight in_flight = check(program, program.has_messages() ? Form::lowered : Form::compute);
  if (std::count(in_flight.pending_of_stage.begin(), in_flight.pending_of_stage.end(), 0) == program.stages)
    throw Error(
        ExitCode::config,
        "no backward of the schedule is divided into I and W, so that no W can be pending; remove the "
        "limit, or use InterleavedZeroBubble, ZBVZeroBubble or DualPipeV");
  Program limited = program;
  PendingLimit limit(program, most);
  for (std::size_t rank = 0; rank < program.ranks.size(); ++rank) limited.ranks[rank] = limit.limited(rank);
  return limited;
}

}  // namespace rondo::pipeline
