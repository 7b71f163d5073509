// Ends a run whose numbers are invalid: after a step that is not finite, too many consecutive
// skipped steps, or a drift of replicas. All ranks read the same numbers, so all throw together.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "trainer/run/run.h"
#include "trainer/run/stragglers.h"

namespace rondo {

class Guards {
 public:
  // `run` must outlive this.
  explicit Guards(Run& run) : run_(run) {}

  // Throws Error(numerics) if the step is not finite, or is the last of kMaxSkipped consecutive
  // skipped steps: without updates a router cannot become balanced.
  void check(const StepResult& result, std::int64_t step);
  // Returns whether `inspect` reads the state after this step.
  bool inspects(std::int64_t step) const;
  // Compares replicas and searches for stragglers when due after this step. Returns the hash of the
  // state when debug.hash_every requests it. Collective.
  std::optional<std::string> inspect(std::int64_t step);
  // Throws Error(numerics) if ranks that should hold the same state do not. Compares at most once
  // per step. Collective.
  void refuse_drift();
  // Adds seconds that this rank waited for others outside of a step's collectives.
  void waited(double seconds) { stragglers_.waited(seconds); }

  static constexpr std::int64_t kMaxSkipped = 10;

 private:
  void refuse(const StepResult& result, std::int64_t step) const;
  void count_skipped(const StepResult& result, std::int64_t step);

  Run& run_;
  Stragglers stragglers_;
  std::int64_t compared_at_ = -1;  // the step of the last comparison of replicas
  std::int64_t skipped_in_a_row_ = 0;
};

}  // namespace rondo
