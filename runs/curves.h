// The curves of a run, made small enough to draw: a group of neighbouring lines becomes its lowest, highest
// and mean value, so that no outlier is lost.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runs/metrics/step_metrics.h"

namespace rondo {

// Something that lines of metrics.jsonl have a value of.
struct Quantity {
  const char* name;   // "grad_norm"
  const char* title;  // "Gradient norm"
  const char* unit;   // "" where it has none
  bool on_log_axis;   // as people look at it first
  std::optional<double> (*of)(const StepMetrics& line);
};
// The losses first: "loss", "validation_loss".
std::span<const Quantity> quantities();

// Lines [first, last) of a run.
struct LineGroup {
  std::size_t first = 0, last = 0;
};
// At most `most` groups (at least 1), of equal size but for one line, which follow each other.
std::vector<LineGroup> line_groups(std::size_t lines, std::size_t most);

struct Extent {
  double low = 0, high = 0, mean = 0;
};
// Over the values that are there and finite; empty where none is.
std::optional<Extent> extent_of(const Quantity& quantity, std::span<const StepMetrics> lines);

}  // namespace rondo
