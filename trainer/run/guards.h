// What ends a run because its numbers are no longer good: a step that is not finite, steps that are skipped in
// a row, replicas that have drifted apart. Every rank reads the same numbers and so throws with the others.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "trainer/run/run.h"
#include "trainer/run/stragglers.h"

namespace rondo {

class Guards {
 public:
  // `run` outlives this.
  explicit Guards(Run& run) : run_(run) {}

  // Throws Error(numerics) where the step is not finite, or is the last of kMostSkipped that were skipped in a
  // row: a router that no step moves never finds its balance.
  void check(const StepResult& result, std::int64_t step);
  // Whether `inspect` reads the state after this step.
  bool inspects(std::int64_t step) const;
  // Compares replicas and looks for stragglers where they are due after this step. Returns the hash of the
  // state where debug.hash_every asks for it. Collective.
  std::optional<std::string> inspect(std::int64_t step);
  // Throws Error(numerics) where ranks that should hold the same state do not. Collective; compares once a
  // step.
  void refuse_drift();
  // Seconds that this rank waited for others outside of a step's collectives.
  void waited(double seconds) { stragglers_.waited(seconds); }

  static constexpr std::int64_t kMostSkipped = 10;

 private:
  void refuse(const StepResult& result, std::int64_t step) const;
  void count_skipped(const StepResult& result, std::int64_t step);

  Run& run_;
  Stragglers stragglers_;
  std::int64_t compared_at_ = -1;  // the step at which replicas were last found equal
  std::int64_t skipped_in_a_row_ = 0;
};

}  // namespace rondo
