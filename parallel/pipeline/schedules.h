// The built-in schedules, one function each: the compute actions of every rank. Orders equal those
// of torch.distributed.pipelining; an oracle test compares them. 1F1B may have fewer microbatches
// than ranks, which torch refuses; its warmup then uses all of them.
//
//   GPipe                  arXiv:1811.06965   all forwards, then all backwards
//   1F1B                   arXiv:1806.03377   one forward, one backward, once the pipeline is full
//   Interleaved1F1B        arXiv:2104.04473   1F1B with several stages a rank
//   InterleavedZeroBubble  arXiv:2401.10241   separates W from I and delays it into bubbles (ZB1P)
//   ZBVZeroBubble          arXiv:2401.10241   two stages a rank in a V; no bubble for equal F, I, W
//   DualPipeV              arXiv:2412.19437   the same V, with forwards and backwards run together
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

// One rank with one stage: each forward but the first runs with the backward of the microbatch
// before. Not in schedules(): it divides no layers.
Program overlapped(std::int32_t microbatches);

struct Schedule {
  std::string name;
  StageStyle style;
  std::int32_t least_stages_per_rank, most_stages_per_rank, default_stages_per_rank;
  Program (*make)(const PipelineShape& shape);
};
const std::vector<Schedule>& schedules();

// Returns nullptr for an unknown name. Names ignore case, as in torch.
const Schedule* find_schedule(std::string_view name);
// Throws Error(usage) with the nearest name for an unknown name.
const Schedule& schedule_named(const std::string& name);

inline constexpr std::int64_t kMaxActions = 1 << 26;  // of compute, in about 3 GiB

// The rule that a shape breaks, "must be ...", and the number that breaks it.
struct BrokenShape {
  enum class Number : std::uint8_t { stages_per_rank, microbatches } number;
  std::string rule;
};
std::optional<BrokenShape> broken_shape(const Schedule& schedule, const PipelineShape& shape);
// Makes the program. Throws Error(usage), with the command's flag, for a broken shape.
Program make_program(const Schedule& schedule, const PipelineShape& shape);

// Limits the pending microbatches of each stage, those between I and W, to `most`. Moves the W of
// the oldest before an I that would exceed the limit. With 0, each I and its W become a B. All
// other actions keep their order, so bubbles grow while memory shrinks. Takes programs with or
// without messages. Throws Error(config) for what check() finds, where no backward is divided, and
// where a stage runs I out of the order of microbatches.
Program limit_pending(const Program& program, std::int32_t most);

}  // namespace rondo::pipeline
