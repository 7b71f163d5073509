// Memory and time of the ranks of a pipeline. The functions of the stages are compiled once per
// kind of rank. The simulator of schedules (parallel/pipeline) gives the time of a step from the
// estimated time of each body and message.
//
// A rank is a coordinate of Axis::pp and represents all ranks of its stages. Times are in seconds.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/plan/cost_model.h"
#include "compiler/plan/simulate.h"
#include "config/derived/pipeline_layout.h"
#include "parallel/pipeline/layers.h"
#include "parallel/pipeline/simulate.h"
#include "trainer/step/step_program.h"

namespace rondo {

// The plan with a limit of pending microbatches per stage, those between I and
// W (parallelism.pipeline_parallel_max_pending_weight_gradients).
struct PendingLimit {
  std::int64_t most = 0;
  std::int64_t bytes = 0;  // on the fullest rank
  double step_s = 0;
};

struct PipelinePlan {
  std::string schedule;  // its name, or the path of its file
  PipelineLayout layout;
  std::int64_t message_bytes = 0;           // [N, dim] of one microbatch between two stages
  pipeline::Times times;                    // of one microbatch
  pipeline::Timeline timeline;              // without the update; with spans if small
  std::vector<ir::StepEstimate> computes;   // of each rank's stages and update
  double update_s = 0;                      // maximum over ranks
  std::vector<std::int64_t> bytes;          // by rank: PlannedMemory::total_bytes()
  std::vector<std::int64_t> pending_bytes;  // by stage: of one microbatch between I and W
  std::vector<PendingLimit> limits;         // most_pending() halved again and again, down to 1

  double step_s() const { return timeline.end + update_s; }
  // Waits of a rank in a step, and waits of all ranks as a share of their time.
  double bubble_s(std::size_t rank) const { return step_s() - computes[rank].step_s; }
  double bubble_share() const;
  std::size_t fullest() const;                        // the rank with the most bytes
  std::size_t busiest() const;                        // the rank with the most compute time
  std::vector<pipeline::StageLayers> layers() const;  // of the stages
  // Returns the parallelism.pipeline_parallel_layout that makes all stages take equally long, by
  // these times. Returns "" if no stage has only layers, since the time of one layer is then
  // unknown.
  std::string even_layout() const;
  std::int32_t most_pending() const;  // microbatches of one stage
  // Returns the first of `limits` within `bytes`, or 0 if none fits; plans of these bodies do not
  // cover 0.
  std::int64_t limit_within(std::int64_t bytes) const;
};

// The compiled functions of all ranks.
class PipelineRanks {
 public:
  // `place` is the index of the planned ranks among the ranks of their stages. Throws what
  // compile_step throws.
  PipelineRanks(const JobConfig& config, const Layout& layout, std::int64_t place,
                const std::shared_ptr<const Decoder>& model, const CompileRequest& request);

  const PipelineLayout& layout() const { return layout_; }
  // Sets a limit of pending microbatches, which keeps the functions; nullopt restores the
  // configuration. REQUIRES: `most` >= 1, and a schedule that divides backwards.
  void limit_pending(std::optional<std::int64_t> most);
  std::int64_t count() const { return std::ssize(kind_of_); }
  // Returns the functions placed on this rank, until the next call.
  const StepProgram& of(std::int64_t rank);
  // Returns the functions of each kind of rank.
  const std::vector<StepProgram>& kinds() const { return kinds_; }

 private:
  const JobConfig config_;
  const Layout mesh_layout_;
  PipelineLayout layout_;
  std::vector<StepProgram> kinds_;
  std::vector<std::size_t> kind_of_;  // by rank
};

// Estimates the time of a function.
using EstimateStep = std::function<ir::StepEstimate(const CompiledStep&)>;
// `message_s` returns the seconds of a message of `bytes` between two ranks.
PipelinePlan plan_pipeline(
    PipelineRanks& ranks, const std::string& schedule, const EstimateStep& estimate,
    const std::function<double(double bytes, std::int64_t from, std::int64_t to)>& message_s);

}  // namespace rondo
