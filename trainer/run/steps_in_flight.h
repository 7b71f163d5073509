// Issues steps to the device and reads their results later.
//
// With metrics.lag = 1 step n + 1 is issued before the host reads and reports the numbers of step
// n. The host reads without lag when something uses the state or the device after a step:
// validation, saves, hashes, profiles, the last step. StepRunner prevents steps issued after a
// failed step from changing the state.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "trainer/observe/memory_snapshot.h"
#include "trainer/observe/profile.h"
#include "trainer/run/batch_feed.h"
#include "trainer/run/guards.h"
#include "trainer/run/run.h"
#include "trainer/run/telemetry.h"

namespace rondo {

class StepsInFlight {
 public:
  // All arguments must outlive this.
  StepsInFlight(Run& run, Guards& guards, const Telemetry& telemetry);

  // Issues the next step with the feed's batch, and reads steps whose numbers are due. Throws what
  // Guards throws.
  void begin(BatchFeed& feed);
  // Reads all steps in flight.
  void finish();
  // Closes the profile of an unfinished window.
  void close_profile();
  std::int64_t count() const { return std::ssize(steps_); }

 private:
  void issue(BatchFeed& feed);
  bool reads_at_once(std::int64_t step) const;
  StepResult wait_for_oldest();
  void report_oldest(const StepResult& result);

  Run& run_;
  Guards& guards_;
  const Telemetry& telemetry_;
  std::optional<Profile> profile_;
  std::optional<MemorySnapshot> snapshot_;
  std::deque<DoneStep> steps_;  // oldest first
};

}  // namespace rondo
