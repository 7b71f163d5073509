// What rank 0 tells: the run folder's files, console lines, TensorBoard. Other ranks have none of this.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/compile.h"
#include "parallel/mesh.h"
#include "trainer/config/schema/job_config.h"
#include "trainer/device/compute_device.h"
#include "trainer/observe/metrics/expert_load.h"
#include "trainer/observe/metrics/run_folder.h"
#include "trainer/observe/metrics/step_metrics.h"
#include "trainer/observe/metrics/tensorboard.h"
#include "trainer/observe/metrics/throughput.h"
#include "trainer/step/step_runner.h"
#include "trainer/step/train_step.h"

namespace rondo {

// What stays the same over the run.
struct RunCosts {
  std::int64_t parameters = 0;
  std::int64_t flops_per_token = 0;
  std::int64_t tokens_per_step = 0;  // of one rank
  Mesh mesh{};
  ComputeDevice device{};
};

class Report {
 public:
  // Locks the run folder and touches nothing in it. `config` outlives the report.
  Report(const JobConfig& config, std::vector<std::string> command_line, int ranks);
  // The start is accepted: from here on the folder is this run's, and its end is written there. `done`: the
  // steps that a run which resumes has behind it. REQUIRED before all below.
  void begin(std::optional<std::int64_t> done);

  RunFolder& folder() { return folder_; }
  void training(const RunCosts& costs);
  // Of training; nothing without experts.
  void experts(const Decoder& model, const TrainStepOptions& options);
  void compiled(const std::vector<const CompiledStep*>& steps);
  void replaying(const ReplayFacts& facts);

  // The run goes on after `step`, from the checkpoint `from`, which took `seconds` to read: so do its
  // metrics.
  void resumed(std::int64_t step, const std::filesystem::path& from, double seconds);
  void training_starts();
  // `tokens_seen`: over all ranks and steps. `data_wait_s`: how long the step waited for its batch.
  void step_done(std::int64_t step, std::int64_t tokens_seen, const StepResult& result, double learning_rate,
                 double data_wait_s, const std::optional<std::string>& state_hash);
  // The clock stands still between these two: validation, saving.
  void pause();
  void go_on();
  // Goes on.
  void validation_done(std::int64_t step, double loss, std::int64_t tokens);

  // Why the disk takes no metrics any more, after it was waited for; "": it does.
  std::string trouble();

 private:
  StepMetrics measure(Throughput& clock) const;
  ConsoleStyle style(std::optional<double> eta_s) const;

  const JobConfig& config_;
  const std::vector<std::string> command_line_;
  const int ranks_;
  RunCosts costs_;
  RunFolder folder_;
  std::int64_t done_ = 0;  // steps, when this process began
  std::optional<StepMetricsWriter> metrics_;
  std::optional<ExpertLoadWriter> expert_load_;
  std::optional<EventFile> tensorboard_;
  std::optional<Throughput> each_step_, each_line_;
  double paused_s_ = 0;
  double line_peak_gib_ = 0;
};

}  // namespace rondo
