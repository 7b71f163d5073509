#include "trainer/observe/metrics_outputs.h"

#include <utility>

#include "support/error.h"
#include "support/log.h"

namespace rondo {

MetricsOutputs::MetricsOutputs(const Metrics& config, const RunFolder& folder)
    : config_(config), folder_(folder.path()), steps_(folder.metrics_file()) {
  if (config.enable_csv) table_.emplace(folder_ / "metrics.csv");
  if (!config.prometheus_file.empty()) require_prometheus_file(config.prometheus_file);
}

void MetricsOutputs::add_experts(std::vector<std::string> routers) {
  expert_load_.emplace(folder_, std::move(routers));
}

EarlierSteps MetricsOutputs::resume_after(std::int64_t step) {
  const EarlierSteps earlier = go_on_after(step, steps_.file());
  if (expert_load_) go_on_after(step, expert_load_->file());
  if (table_) table_->take_over(steps_file());
  return earlier;
}

void MetricsOutputs::start_at(std::int64_t first_step) {
  if (!config_.enable_tensorboard) return;
  const std::filesystem::path events = folder_ / config_.save_tb_folder;
  std::filesystem::create_directories(events);
  tensorboard_.emplace(events, first_step);
}

void MetricsOutputs::write_step(const StepMetrics& metrics) {
  steps_.write(metrics);
  if (table_) table_->write(metrics);
}

void MetricsOutputs::write_line(const StepMetrics& metrics) {
  if (tensorboard_) tensorboard_->write(metrics.step, tensorboard_scalars(metrics));
  if (!config_.prometheus_file.empty()) write_prometheus_page(metrics);
}

void MetricsOutputs::write_line(const ValidationMetrics& metrics) {
  if (tensorboard_) tensorboard_->write(metrics.step, tensorboard_scalars(metrics));
}

void MetricsOutputs::write_experts(std::int64_t step, std::span<const float> tokens_LE) {
  if (expert_load_) expert_load_->write(step, tokens_LE);
}

void MetricsOutputs::write_prometheus_page(const StepMetrics& metrics) {
  try {
    write_prometheus(config_.prometheus_file, folder_.filename().string(), metrics);
    prometheus_fails_ = false;
  } catch (const Error& error) {
    if (!std::exchange(prometheus_fails_, true))
      log_warning(std::string("metrics.prometheus_file is not up to date: ") + error.what());
  }
}

std::string MetricsOutputs::trouble() {
  std::string why = steps_.file().trouble();
  if (why.empty() && expert_load_) why = expert_load_->file().trouble();
  if (why.empty() && tensorboard_) why = tensorboard_->file().trouble();
  return why;
}

}  // namespace rondo
