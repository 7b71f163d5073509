// What a job will take before it runs: the step of one rank of an N-rank job is recorded, improved and
// planned as that rank would do it, without process groups, weights, data or a run folder, and what it costs
// on a device is estimated (compiler/plan/cost_model.h). One thread; writes nothing but a timeline that is
// asked for.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/compile.h"
#include "compiler/plan/cost_model.h"
#include "compiler/plan/simulate.h"
#include "compiler/report/memory_report.h"
#include "config/derived.h"
#include "config/schema/job_config.h"
#include "plan/pipeline_plan.h"
#include "trainer/step/expert_rows.h"
#include "trainer/step/step_runner.h"

namespace rondo {

struct PlanTimes {
  double model_ms = 0;    // tables of parameters, signatures
  double trace_ms = 0;    // of all functions of the step
  double passes_ms = 0;   // with the verifier
  double plan_ms = 0;     // memory plan, memory report, estimate
  std::size_t nodes = 0;  // after the passes

  double total_ms() const { return model_ms + trace_ms + passes_ms + plan_ms; }
};

// Of a checkpoint on disk, all ranks together.
struct CheckpointBytes {
  std::int64_t full = 0;     // that a run can resume from
  std::int64_t weights = 0;  // of the last save of the model only, in checkpoint.export_dtype
};

// What no schedule and no fusion shortens, and what it is.
struct StepFloor {
  double seconds = 0;
  const char* of = "";  // "products and attention"
};

struct JobPlan {
  std::string model, flavor;
  std::int64_t parameters = 0;
  double flops_per_token = 0;  // Decoder::flops_per_token
  Layout layout;
  std::int64_t rank =
      0;  // whose memory this is; of a pipeline the one that takes most, unless one was asked for
  std::string memory_policy;
  std::int64_t tokens_per_step = 0;  // of all ranks
  const ir::DeviceModel* device = nullptr;
  std::optional<ExpertRows>
      expert_rows;  // where ranks share the experts; the estimate takes balanced routers

  PlannedMemory memory;
  std::int64_t usable_bytes = 0;  // of the device: its memory without the reserve
  bool fits() const { return memory.total_bytes() <= usable_bytes; }
  CheckpointBytes checkpoint;

  // Of one optimizer step of one rank: of a pipeline of the one that computes longest, unless one was asked
  // for; it waits for the others besides.
  ir::StepEstimate step;
  std::optional<PipelinePlan> pipeline;
  double bubble_s = 0;  // what that rank waits for others
  double step_s() const { return step.step_s + bubble_s; }
  std::int64_t steps = 0;  // of the run
  PlanTimes times;
  std::vector<std::string> notes;  // what the passes decided, and what the plan does not know

  double tokens_per_s() const { return static_cast<double>(tokens_per_step) / step_s(); }
  double tokens_per_s_per_rank() const {
    return tokens_per_s() / static_cast<double>(layout.mesh.world_size());
  }
  // Of the run's steps, one after another: without start, validation, saving and failures.
  double run_tokens() const { return static_cast<double>(steps * tokens_per_step); }
  double run_s() const { return static_cast<double>(steps) * step_s(); }
  double device_hours() const { return run_s() / 3600 * static_cast<double>(layout.mesh.world_size()); }
  // Percent of the device's 16-bit peak, by torchtitan's convention.
  double mfu_percent() const;
  // The longest of matrix products with attention, and the lanes of communication, which run side by side.
  StepFloor floor() const;
  // Were everything but the floor free, or hidden.
  double most_tokens_per_s_per_rank() const;
  double most_mfu_percent() const;
  // What a step spends most of its time on: "matrix products, 61 % of the step".
  std::string bound() const;
};

// `rank` is one of `world` ranks; without one it is the first, or of a pipeline what JobPlan says. Throws
// what resolve_layout, the tracer and the passes throw. With a `timeline`, that file gets the picture of the
// memory (compiler/report/memory_timeline.h), or FileError. `traces` as in CompileRequest.
JobPlan plan_job(const JobConfig& config, std::int64_t world, std::optional<std::int64_t> rank,
                 const ir::DeviceModel& device, const std::filesystem::path& timeline = {},
                 const std::shared_ptr<TracedGraphs>& traces = nullptr);

}  // namespace rondo
