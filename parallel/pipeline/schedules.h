// The known schedules, one plain function each: the actions of every rank in the form of compute. Orders are
// those of torch.distributed.pipelining, which an oracle test compares. 1F1B may also have fewer microbatches
// than ranks, which torch refuses: it warms up with what there is.
//
//   GPipe                  arXiv:1811.06965     all forwards, then all backwards
//   1F1B                   arXiv:1806.03377     one forward, one backward, once the pipeline is full
//   Interleaved1F1B        arXiv:2104.04473     the same with several stages a rank
//   InterleavedZeroBubble  arXiv:2401.10241     W apart from I, delayed into the bubbles (ZB1P)
//   ZBVZeroBubble          arXiv:2401.10241     two stages a rank in a V: no bubble where F, I and W are
//   equal DualPipeV              arXiv:2412.19437     the same V, with forwards and backwards that run
//   together
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "parallel/pipeline/program.h"

namespace rondo::pipeline {

struct PipelineShape {
  std::int32_t ranks = 1, stages_per_rank = 1, microbatches = 1;
  std::int32_t stages() const { return ranks * stages_per_rank; }
};

Program gpipe(const PipelineShape& shape);
Program one_f_one_b(const PipelineShape& shape);
Program interleaved_1f1b(const PipelineShape& shape);
Program interleaved_zero_bubble(const PipelineShape& shape);
Program zbv_zero_bubble(const PipelineShape& shape);
Program dual_pipe_v(const PipelineShape& shape);

struct Schedule {
  std::string name;
  StageStyle style;
  std::int32_t least_stages_per_rank, most_stages_per_rank, default_stages_per_rank;
  Program (*make)(const PipelineShape& shape);
};
const std::vector<Schedule>& schedules();

// nullptr where there is none of this name. As in torch, case does not matter.
const Schedule* find_schedule(std::string_view name);
// Throws Error(usage) with the nearest name.
const Schedule& schedule_named(const std::string& name);

inline constexpr std::int64_t kMostActions = 1 << 26;  // of compute; a program of them takes about 3 GiB

// What a schedule says of a shape that it cannot have: of which of its numbers, and "must be ...".
struct BrokenShape {
  enum class Number : std::uint8_t { stages_per_rank, microbatches } number;
  std::string rule;
};
std::optional<BrokenShape> broken_shape(const Schedule& schedule, const PipelineShape& shape);
// Its program. Throws Error(usage) for a broken shape, with the name of the command's flag.
Program make_program(const Schedule& schedule, const PipelineShape& shape);

// The same program with at most `most` microbatches of each stage pending, between their I and their W: an I
// that would be one more comes behind the W of the oldest. With 0 each I and its W are a B. All else keeps
// its order, so bubbles grow while memory shrinks. With messages or without. Throws Error(config) for what
// check() finds, where no backward is divided, and where a stage runs its I out of the order of microbatches.
Program limit_pending(const Program& program, std::int32_t most);

}  // namespace rondo::pipeline
