// The measurements of one optimizer step, as a line of `metrics.jsonl` and as a console line.
//
// metrics.jsonl has one JSON object per line, with the fields below as keys. Numbers are the
// shortest decimals that read back to the same bits. Values that JSON lacks are strings: "NaN",
// "Infinity", "-Infinity". `mfu` is null if the peak of the device is unknown. Optional keys are
// left out: `state_hash` without a hash, `load_imbalance` without experts, `attention_imbalance`
// where ranks have whole rows, the overflow where experts always have room, and `validation_loss`
// at steps without a validation.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "support/files/append_file.h"

namespace rondo {

// Counts of steps whose experts had no room for all rows (docs/experts.md).
struct OverflowMetrics {
  std::int64_t dropped_tokens = 0;  // rows without room, over all ranks and layers
  std::int64_t repeated_steps = 0;
  std::int64_t skipped_steps = 0;
  void add(const OverflowMetrics& other);
};

struct StepMetrics {
  std::int64_t step = 0;  // the first step is 1
  double loss = 0;        // mean over the valid tokens of the global batch
  double grad_norm = 0;   // before clipping
  double lr = 0;
  double step_time_s = 0;                 // mean over the steps since the last line, validation excluded
  double tokens_per_s = 0;                // of one device, as in torchtitan
  double tflops = 0;                      // of one device
  std::optional<double> mfu;              // percent of the device's peak; nullopt if the peak is unknown
  double memory_gib = 0;                  // peak since the last line
  double data_wait_fraction = 0;          // fraction of the time spent waiting for data, in [0, 1]
  double data_wait_s = 0;                 // time of this step spent waiting for data
  std::int64_t tokens_seen = 0;           // by all ranks, since the start of the run
  double progress = 0;                    // tokens_seen over its value after the last step, in [0, 1]
  std::optional<std::string> state_hash;  // hexadecimal
  // Tokens of the fullest expert over the mean, in the layer with the largest ratio; nullopt
  // without experts.
  std::optional<double> load_imbalance = {};
  // Query-key pairs of the busiest of rank 0's context-parallel ranks over their mean, minus 1.
  std::optional<double> attention_imbalance = {};
  std::optional<OverflowMetrics> overflow = {};  // since the last line, or of the step
  std::optional<double> validation_loss = {};    // with the state after this step
};

// Returns a double as JSON (see above). NaN loses its sign and payload; any other value reads back
// bit for bit.
std::string json_number(double value);

// Convert to and from one line without its newline. `parse_step_metrics` throws
// std::invalid_argument with the reason for an invalid line; unknown keys are ignored.
std::string to_json(const StepMetrics& metrics);
StepMetrics parse_step_metrics(std::string_view line);

// Appends to metrics.jsonl. For what a kill or a full disk leaves, see AppendFile.
class StepMetricsWriter {
 public:
  explicit StepMetricsWriter(std::filesystem::path file) : file_(std::move(file)) {}
  void write(const StepMetrics& metrics) { file_.append(to_json(metrics) + "\n"); }
  AppendFile& file() { return file_; }

 private:
  AppendFile file_;
};

struct ConsoleStyle {
  bool color = false;  // as log_has_color()
  std::optional<double> eta_s = std::nullopt;
};

// Returns the line of a step. With the log's time and rank it has at most 100 columns while the
// step and the tokens per second have five digits:
// "step 7  loss 7.6246  norm 1.2345  70.1 GiB  12,345 tps  mfu 43.2%  eta 1m23s"
// If the device's peak is unknown, the line has the achieved FLOP/s in place of mfu. An overflow
// precedes the eta: "dropped_tokens: 96  repeated_steps: 1  skipped_steps: 0".
std::string console_line(const StepMetrics& metrics, const ConsoleStyle& style);

struct ValidationMetrics {
  std::int64_t step = 0;
  double loss = 0;
  double tokens_per_s = 0;
  double memory_gib = 0;
};
std::string console_line(const ValidationMetrics& metrics, const ConsoleStyle& style);

// Returns "7s", "1m23s", "2h05m", "3d04h"; "?" for a value that is not a duration.
std::string format_duration(double seconds);

}  // namespace rondo
