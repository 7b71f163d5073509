// The resources of a job, planned before it runs. plan_job traces one rank's step of an N-rank job,
// runs the passes and plans its memory, as that rank would. It needs no process groups, weights,
// data or run folder. The cost model estimates its time on a device (compiler/plan/cost_model.h).
// Single-threaded. Writes only a requested timeline.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/compile.h"
#include "compiler/plan/cost_model.h"
#include "compiler/plan/devices/accuracy.h"
#include "compiler/plan/report/memory_report.h"
#include "compiler/plan/simulate.h"
#include "config/derived/layout.h"
#include "config/schema/job_config.h"
#include "plan/pipeline_plan.h"
#include "trainer/step/expert_rows.h"
#include "trainer/step/step_runner.h"

namespace rondo {

struct PlanTimes {
  double model_ms = 0;    // parameter tables and signatures
  double trace_ms = 0;    // of all functions of the step
  double passes_ms = 0;   // with the verifier
  double plan_ms = 0;     // memory plan, memory report and estimate
  std::size_t nodes = 0;  // after the passes

  double total_ms() const { return model_ms + trace_ms + passes_ms + plan_ms; }
};

// Bytes of a checkpoint on disk, over all ranks.
struct CheckpointBytes {
  std::int64_t full = 0;     // a checkpoint that can be resumed
  std::int64_t weights = 0;  // a last save of the model only, in checkpoint.export_dtype
};

// A lower bound of the step time that no schedule or fusion shortens, and its cause.
struct StepFloor {
  double seconds = 0;
  const char* of = "";  // "products and attention"
};

// The time and cost of a number of steps, without start, validation, saves and failures.
struct RunEstimate {
  std::int64_t steps = 0;
  double tokens = 0;
  double seconds = 0;
  double device_hours = 0;  // over all ranks
  double price = 0;         // of the hours; 0: unknown
  double energy_kwh = 0;    // of the GPUs alone, at their power limit; 0: unknown
};

// Tokens a parameter of a compute-optimal run (Hoffmann et al., 2022, table 3).
inline constexpr std::int64_t kOptimalTokensPerParameter = 20;

struct JobPlan {
  std::string model, flavor;
  std::int64_t parameters = 0;
  double flops_per_token = 0;  // Decoder::flops_per_token
  double attention_flops_per_token = 0;
  Layout layout;
  // The rank of `memory`. Without a requested rank, it is the fullest one of a pipeline, or 0.
  std::int64_t rank = 0;
  MemoryPolicy memory_policy = MemoryPolicy::none;
  std::int64_t tokens_per_step = 0;  // over all ranks
  const ir::DeviceModel* device = nullptr;
  ir::Accuracy accuracy;                  // of the speed, for a job like this on GPUs
  std::optional<ExpertRows> expert_rows;  // if ranks divide experts; for balanced routers

  PlannedMemory memory;
  std::int64_t usable_bytes = 0;  // memory of the device without the reserve
  bool fits() const { return memory.total_bytes() <= usable_bytes; }
  CheckpointBytes checkpoint;

  // One optimizer step of one rank, without its waits for other stages. Without a requested rank, a
  // pipeline shows the rank with the most compute time.
  ir::StepEstimate step;
  std::optional<PipelinePlan> pipeline;
  double bubble_s = 0;  // the rank's waits for others
  double step_s() const { return step.step_s + bubble_s; }
  std::int64_t steps = 0;     // of the run
  double price_per_hour = 0;  // of one device, which the caller sets; 0: unknown
  PlanTimes times;
  std::vector<std::string> notes;       // what the plan does not cover, or plans differently
  std::vector<std::string> pass_notes;  // decisions of the passes

  double tokens_per_s() const { return static_cast<double>(tokens_per_step) / step_s(); }
  double tokens_per_s_per_rank() const {
    return tokens_per_s() / static_cast<double>(layout.mesh.world_size());
  }
  RunEstimate run(std::int64_t of_steps) const;
  // Returns the least number of whole steps with this many tokens.
  std::int64_t steps_for(std::int64_t tokens) const {
    return (tokens + tokens_per_step - 1) / tokens_per_step;
  }
  RunEstimate optimal_run() const { return run(steps_for(kOptimalTokensPerParameter * parameters)); }
  double price_per_billion_tokens() const;

  // Percent of the device's 16-bit peak. MFU counts the formula's operations (flops_per_token):
  // 6 a parameter and whole squares of attention, as PaLM and torchtitan do. Causal MFU counts half
  // of attention. HFU counts all products that the ranks compute, with recomputation.
  double mfu_percent() const;
  double causal_mfu_percent() const;
  double hfu_percent() const;
  // Returns the maximum of matrix products with attention and of the communication lanes, which
  // run concurrently.
  StepFloor floor() const;
  // Throughput and MFU if everything except the floor took no time or were hidden.
  double most_tokens_per_s_per_rank() const;
  double most_mfu_percent() const;
  // Returns the largest part of a step: "matrix products, 61 % of the step".
  std::string bound() const;
};

// Plans the job for one of `world` ranks; JobPlan describes the default. Throws what
// resolve_layout, the tracer and the passes throw. Writes a memory timeline
// (compiler/plan/report/memory_timeline.h) to `timeline` unless it is empty, or throws FileError.
// `traces` is as in CompileRequest.
JobPlan plan_job(const JobConfig& config, std::int64_t world, std::optional<std::int64_t> rank,
                 const ir::DeviceModel& device, const std::filesystem::path& timeline = {},
                 const std::shared_ptr<TracedGraphs>& traces = nullptr);

}  // namespace rondo
