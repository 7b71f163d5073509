// Reports a run on rank 0: the files of the run folder, console lines, TensorBoard. Other ranks
// have no Report.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/compile.h"
#include "config/schema/job_config.h"
#include "datasets/loader.h"
#include "parallel/mesh.h"
#include "runs/metrics/run_folder.h"
#include "runs/metrics/step_metrics.h"
#include "runs/metrics/throughput.h"
#include "trainer/device/compute_device.h"
#include "trainer/observe/metrics_outputs.h"
#include "trainer/observe/start_and_end.h"
#include "trainer/step/functions/train_step.h"
#include "trainer/step/step_runner.h"

namespace rondo {

// Facts that are constant over the run.
struct RunCosts {
  std::int64_t parameters = 0;
  std::int64_t flops_per_token = 0;
  std::int64_t tokens_per_step = 0;  // of one rank
  Mesh mesh{};
  ComputeDevice device{};
};

// A finished step.
struct DoneStep {
  std::int64_t step = 0;
  std::int64_t tokens_seen = 0;  // over all ranks and steps
  double learning_rate = 0;
  double data_wait_s = 0;  // time spent waiting for the batch
  std::optional<double> attention_imbalance;
  std::optional<std::string> state_hash;
  bool validates = false;  // validation_done follows; the line has both losses
};

class Report {
 public:
  // Locks the run folder without changing its contents. `config` must outlive the report.
  Report(const JobConfig& config, std::vector<std::string> command_line, int ranks);
  ~Report();  // ends console.log
  // Makes the folder this run's, after the start is accepted; the end of the run is written there.
  // `resumed`: the steps that a resumed run continues. All functions below REQUIRE it.
  void begin(const std::optional<Resumed>& resumed);

  RunFolder& folder() { return folder_; }
  void log_training(const RunCosts& costs);
  // `validation`: nullptr without validation. `step`, `tokens_seen`: that the run continues from.
  void log_data(const DataSummary& training, const DataSummary* validation, std::int64_t step,
                std::int64_t tokens_seen);
  // Logs the experts of the training function; nothing without experts.
  void log_experts(const Decoder& model, const TrainStepOptions& options);
  void log_compiled(const StepProgram& functions);
  void replaying(const ReplayStats& facts);

  // Records that the run continues after `step` from the checkpoint `from`, which took `seconds` to
  // read, and continues the metrics files.
  void resumed(std::int64_t step, const std::filesystem::path& from, double seconds);
  // Logs the learning rate from here on, and the weight decay of the parameters
  // (weight_decay_text).
  void log_schedule(const ScheduleStart& start, const std::string& weight_decay);
  void training_starts();
  void step_done(const DoneStep& done, const StepResult& result);
  // The clocks stop between these two, during validation and saves.
  void pause();
  void go_on();
  // Also calls go_on(). `loss`: nullopt if the validation was skipped.
  void validation_done(std::int64_t step, std::optional<double> loss, std::int64_t tokens);

  // Reports that the run ends after a step, its last one or an earlier one. `schedule_step`: the
  // step of the schedule that would come next. `last_saved_step`: -1 without a save.
  void ended(std::int64_t step, std::int64_t schedule_step, std::int64_t tokens_seen,
             std::int64_t last_saved_step);
  // Writes exit.json, after any metrics that are still held. Works without a call of `ended`.
  void write_exit(const ExitRecord& record);
  // Returns why metrics cannot be written, after retries; "" if they can.
  std::string trouble();

 private:
  void log_line(std::string_view line) const;
  void log_detail(std::string_view line) const;
  void log_function(const CompiledStep& step);
  void write_held();
  StepMetrics measure(Throughput& clock) const;

  const JobConfig& config_;
  const std::vector<std::string> command_line_;
  const int ranks_;
  RunCosts costs_;
  RunFolder folder_;
  std::int64_t done_ = 0;  // steps when this process started
  std::optional<MetricsOutputs> outputs_;
  std::optional<Throughput> each_step_, each_line_;
  std::optional<StepMetrics> held_;  // the metrics of a step whose validation is running
  double started_s_ = 0, pause_began_s_ = 0, paused_s_ = 0;
  double line_peak_gib_ = 0;
  std::optional<OverflowMetrics> line_overflow_;  // present if experts may lack room for rows
};

}  // namespace rondo
