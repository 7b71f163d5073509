// What the ranks of a pipeline take: the functions of their stages, compiled once for ranks that are alike,
// the memory of each rank, and the time of a step by the simulator of schedules (parallel/pipeline), which is
// given what each body and message is estimated to take.
//
// Ranks are those of the pipeline, the coordinates of Axis::pp: rank r stands for all ranks of its stages.
// Times are seconds.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/plan/cost_model.h"
#include "compiler/plan/simulate.h"
#include "config/pipeline_layout.h"
#include "parallel/pipeline/layers.h"
#include "parallel/pipeline/simulate.h"
#include "trainer/step/step_program.h"

namespace rondo {

// What the schedule takes with fewer microbatches of a stage between I and W
// (parallelism.pipeline_parallel_max_pending_weight_gradients).
struct PendingLimit {
  std::int64_t most = 0;
  std::int64_t bytes = 0;  // of the fullest rank
  double step_s = 0;
};

struct PipelinePlan {
  std::string schedule;  // its name, or the path of its file
  PipelineLayout layout;
  std::int64_t message_bytes = 0;           // of a microbatch between two stages, either way: [N, dim]
  pipeline::Times times;                    // of a microbatch
  pipeline::Timeline timeline;              // of a step until its update; with spans where they can be drawn
  std::vector<ir::StepEstimate> computes;   // of each rank: its stages and its update
  double update_s = 0;                      // of the rank that takes longest
  std::vector<std::int64_t> bytes;          // of each rank: PlannedMemory::total_bytes()
  std::vector<std::int64_t> pending_bytes;  // of each stage: of a microbatch between I and W
  std::vector<PendingLimit> limits;         // half of the most that are pending, half of that, to 1

  double step_s() const { return timeline.end + update_s; }
  // What a rank waits for others in a step; and all of them, as a share of their time.
  double bubble_s(std::size_t rank) const { return step_s() - computes[rank].step_s; }
  double bubble_share() const;
  std::size_t fullest() const;                        // the rank with most bytes
  std::size_t busiest() const;                        // the rank that computes longest
  std::vector<pipeline::StageLayers> layers() const;  // of the stages
  // What would make all stages take equally long, by these times: parallelism.pipeline_parallel_layout. ""
  // where no stage has layers alone, which would tell what one of them takes.
  std::string even_layout() const;
  std::int32_t most_pending() const;  // microbatches of a stage
  // The first of `limits` that takes no more than so much, or 0, which no plan of these bodies can tell.
  std::int64_t limit_within(std::int64_t bytes) const;
};

// The functions of all ranks.
class PipelineRanks {
 public:
  // `place`: of the ranks that are planned, among those of their stages. Throws what compile_step
  // throws.
  PipelineRanks(const JobConfig& config, const Layout& layout, std::int64_t place,
                const std::shared_ptr<const Decoder>& model, const CompileRequest& request);

  const PipelineLayout& layout() const { return layout_; }
  // From now on with this limit of pending microbatches, which keeps their functions; nullopt: as configured.
  // REQUIRES: 1 or more, and a schedule that divides backwards.
  void limit_pending(std::optional<std::int64_t> most);
  std::int64_t count() const { return std::ssize(kind_of_); }
  // As if for this rank, until the next call.
  const StepProgram& of(std::int64_t rank);
  // What was compiled.
  const std::vector<StepProgram>& kinds() const { return kinds_; }

 private:
  const JobConfig config_;
  const Layout ranks_;
  PipelineLayout layout_;
  std::vector<StepProgram> kinds_;
  std::vector<std::size_t> kind_of_;  // by rank
};

// How long a function takes.
using EstimateStep = std::function<ir::StepEstimate(const CompiledStep&)>;
// `message_s`: how long a message of so many bytes between two ranks.
PipelinePlan plan_pipeline(
    PipelineRanks& ranks, const std::string& schedule, const EstimateStep& estimate,
    const std::function<double(double bytes, std::int64_t from, std::int64_t to)>& message_s);

}  // namespace rondo
