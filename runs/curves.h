// Reduces the curves of a run to a size that can be drawn: a group of neighbouring lines becomes
// its lowest, highest and mean value, so that no outlier is lost.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runs/metrics/step_metrics.h"

namespace rondo {

// A quantity of the lines of metrics.jsonl.
struct Quantity {
  const char* name;   // "grad_norm"
  const char* title;  // "Gradient norm"
  const char* unit;   // "" for none
  bool on_log_axis;   // the default of the axis
  std::optional<double> (*of)(const StepMetrics& line);
};
// Returns all quantities; "loss" and "validation_loss" come first.
std::span<const Quantity> quantities();

// Lines [first, last) of a run.
struct LineGroup {
  std::size_t first = 0, last = 0;
};
// Divides lines into at most `most` (at least 1) consecutive groups, whose sizes differ by at
// most one.
std::vector<LineGroup> line_groups(std::size_t lines, std::size_t most);

struct Extent {
  double low = 0, high = 0, mean = 0;
};
// Returns the extent of the finite values; nullopt if there are none.
std::optional<Extent> extent_of(const Quantity& quantity, std::span<const StepMetrics> lines);

}  // namespace rondo
