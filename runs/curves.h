// The curves of a run in bounded memory. A group of neighbouring lines keeps the lowest, highest
// and mean value of each quantity, so that no outlier is lost.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string_view>
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
inline constexpr std::size_t kQuantities = 11;
// Returns all quantities; "loss" and "validation_loss" come first.
std::span<const Quantity, kQuantities> quantities();
// REQUIRES: there is a quantity of this name.
std::size_t quantity_named(std::string_view name);

// The finite values of a quantity.
struct Extent {
  double low = INFINITY, high = -INFINITY, sum = 0;
  std::int64_t count = 0;

  void add(const Extent& other);
  // REQUIRES: count > 0. Keeps the mean of equal values equal to them.
  double mean() const;
};

// Consecutive lines.
struct LineGroup {
  StepMetrics last;
  std::int64_t lines = 0;
  double seconds = 0;  // of training up to the last line
  std::array<Extent, kQuantities> extents;

  void add(const LineGroup& next);
};
// Merges groups into at most `most` (at least 1), of about the same number of groups each.
std::vector<LineGroup> merged(std::span<const LineGroup> groups, std::size_t most);

// The lowest of some losses, and the last. Losses that are not finite are never the best, nor is 0,
// the loss of a step without labels.
struct BestLoss {
  double last = NAN, best = NAN;
  std::int64_t best_step = 0;
  void add(std::int64_t step, double loss);
};

// All lines of a run, as groups.
class StepSeries {
 public:
  static constexpr std::size_t kMaxGroups = 8192;  // up to as many lines, a line is a group
  static constexpr std::size_t kRecentLines = 100;

  void add(const StepMetrics& line);

  std::int64_t lines() const { return lines_; }
  bool empty() const { return lines_ == 0; }
  const std::vector<LineGroup>& groups() const { return all_.groups; }
  const std::vector<LineGroup>& validations() const { return validations_.groups; }  // lines with one
  const std::deque<StepMetrics>& recent() const { return recent_; }                  // the last lines
  const StepMetrics& last() const { return recent_.back(); }
  const BestLoss& loss() const { return loss_; }
  const BestLoss& validation_loss() const { return validation_loss_; }

 private:
  struct Groups {
    std::vector<LineGroup> groups;
    std::int64_t lines_of_a_group = 1;
    void add(const LineGroup& line);
  };

  Groups all_, validations_;
  std::deque<StepMetrics> recent_;
  BestLoss loss_, validation_loss_;
  std::int64_t lines_ = 0;
  double seconds_ = 0;
};

}  // namespace rondo
