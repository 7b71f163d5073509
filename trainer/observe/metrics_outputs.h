// Writes the metrics of a run to its files: metrics.jsonl and, as configured, metrics.csv,
// TensorBoard, a page for Prometheus, and the load of experts.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/schema/watching.h"
#include "runs/metrics/expert_load.h"
#include "runs/metrics/metrics_files.h"
#include "runs/metrics/run_folder.h"
#include "runs/metrics/step_lines.h"
#include "runs/metrics/step_metrics.h"
#include "runs/metrics/tensorboard.h"

namespace rondo {

class MetricsOutputs {
 public:
  // `config` must outlive this. Throws Error(environment) if metrics.prometheus_file exists and is
  // no regular file.
  MetricsOutputs(const Metrics& config, const RunFolder& folder);

  // Also writes the load of the experts of these routers from here on.
  void add_experts(std::vector<std::string> routers);
  // Continues the files of earlier processes after `step`. Returns which steps metrics.jsonl had.
  EarlierSteps resume_after(std::int64_t step);
  // Opens TensorBoard's file if it is configured. REQUIRES: a call before the first write.
  void start_at(std::int64_t first_step);

  // Writes one step to metrics.jsonl and metrics.csv.
  void write_step(const StepMetrics& metrics);
  // Writes the metrics of a console line, of one or several steps, to TensorBoard and Prometheus. A
  // page that cannot be written is a warning, since the run does not need it.
  void write_line(const StepMetrics& metrics);
  void write_line(const ValidationMetrics& metrics);
  // `tokens_LE` as in ExpertLoadWriter; nothing is written without add_experts().
  void write_experts(std::int64_t step, std::span<const float> tokens_LE);

  const std::filesystem::path& steps_file() { return steps_.file().path(); }
  // Returns why a file cannot be written, after retries; "" if all can.
  std::string trouble();

 private:
  void write_prometheus_page(const StepMetrics& metrics);

  const Metrics& config_;
  const std::filesystem::path folder_;
  StepMetricsWriter steps_;
  std::optional<MetricsTable> table_;
  std::optional<ExpertLoadWriter> expert_load_;
  std::optional<EventFile> tensorboard_;
  bool prometheus_fails_ = false;
};

}  // namespace rondo
