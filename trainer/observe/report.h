// What rank 0 tells: the run folder's files, console lines, TensorBoard. Other ranks have none of this.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/compile.h"
#include "config/schema/job_config.h"
#include "datasets/loader.h"
#include "parallel/mesh.h"
#include "runs/metrics/expert_load.h"
#include "runs/metrics/metrics_files.h"
#include "runs/metrics/run_folder.h"
#include "runs/metrics/step_metrics.h"
#include "runs/metrics/tensorboard.h"
#include "runs/metrics/throughput.h"
#include "trainer/device/compute_device.h"
#include "trainer/step/functions/train_step.h"
#include "trainer/step/step_runner.h"

namespace rondo {

// What stays the same over the run.
struct RunCosts {
  std::int64_t parameters = 0;
  std::int64_t flops_per_token = 0;
  std::int64_t tokens_per_step = 0;  // of one rank
  Mesh mesh{};
  ComputeDevice device{};
};

// A step that was taken.
struct DoneStep {
  std::int64_t step = 0;
  std::int64_t tokens_seen = 0;  // over all ranks and steps
  double learning_rate = 0;
  double data_wait_s = 0;  // how long the step waited for its batch
  std::optional<double> attention_imbalance;
  std::optional<std::string> state_hash;
  bool validates = false;  // validation_done follows, so that its line has both losses
};

class Report {
 public:
  // Locks the run folder and touches nothing in it. `config` outlives the report.
  Report(const JobConfig& config, std::vector<std::string> command_line, int ranks);
  // The start is accepted: from here on the folder is this run's, and its end is written there. `resumed`:
  // what a run that resumes has behind it. REQUIRED before all below.
  void begin(const std::optional<Resumed>& resumed);

  RunFolder& folder() { return folder_; }
  void log_training(const RunCosts& costs);
  // `validation`: nullptr without one.
  void log_data(const DataSummary& training, const DataSummary* validation);
  // Of training; nothing without experts.
  void log_experts(const Decoder& model, const TrainStepOptions& options);
  void log_compiled(const StepProgram& functions);
  void replaying(const ReplayStats& facts);

  // The run goes on after `step`, from the checkpoint `from`, which took `seconds` to read: so do its
  // metrics.
  void resumed(std::int64_t step, const std::filesystem::path& from, double seconds);
  void training_starts();
  void step_done(const DoneStep& done, const StepResult& result);
  // The clock stands still between these two: validation, saving.
  void pause();
  void go_on();
  // Goes on.
  void validation_done(std::int64_t step, double loss, std::int64_t tokens);

  // The run ends after `step`, its last one or an earlier. `last_saved_step`: -1 where nothing is saved.
  void ended(std::int64_t step, std::int64_t tokens_seen, std::int64_t last_saved_step);
  // What is still held is written first. Also of a run that never came to `ended`.
  void write_exit(const ExitRecord& record);
  // Why the disk takes no metrics any more, after it was waited for; "": it does.
  std::string trouble();

 private:
  void tell(std::string_view line) const;
  void tell_details(std::string_view line) const;
  void log_function(const CompiledStep& step);
  void write_held();
  void show_prometheus(const StepMetrics& metrics);
  StepMetrics measure(Throughput& clock) const;
  ConsoleStyle style(std::optional<double> eta_s) const;

  const JobConfig& config_;
  const std::vector<std::string> command_line_;
  const int ranks_;
  RunCosts costs_;
  RunFolder folder_;
  std::int64_t done_ = 0;  // steps, when this process began
  std::optional<StepMetricsWriter> metrics_;
  std::optional<MetricsTable> table_;
  std::optional<ExpertLoadWriter> expert_load_;
  std::optional<EventFile> tensorboard_;
  std::optional<Throughput> each_step_, each_line_;
  std::optional<StepMetrics> held_;  // the line of a step that is being validated
  bool prometheus_fails_ = false;
  double started_s_ = 0, pause_began_s_ = 0, paused_s_ = 0;
  double line_peak_gib_ = 0;
  std::optional<OverflowMetrics> line_overflow_;  // where experts have no room for all rows
};

}  // namespace rondo
