// The steps that the device has and the host has not read.
//
// With metrics.lag = 1 the device has step n + 1 before the host reads the numbers of step n, which are
// reported then. The host reads earlier wherever something looks at the state or the device after a step:
// validations, saves, hashes, profiles, the last step. Until then StepRunner keeps what was begun behind a
// failed step from changing anything.
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
  // All of these outlive this.
  StepsInFlight(Run& run, Guards& guards, const Telemetry& tell);

  // Begins the next step with the feed's batch; reads steps whose numbers are due. Throws what Guards does.
  void begin(BatchFeed& feed);
  // Reads all steps in flight.
  void finish();
  // Closes the profile of a window that would have gone on.
  void close_profile();
  std::int64_t count() const { return std::ssize(steps_); }

 private:
  void issue(BatchFeed& feed);
  bool reads_at_once(std::int64_t step) const;
  StepResult wait_for_oldest();
  void report_oldest(const StepResult& result);

  Run& run_;
  Guards& guards_;
  const Telemetry& tell_;
  std::optional<Profile> profile_;
  std::optional<MemorySnapshot> snapshot_;
  std::deque<DoneStep> steps_;  // the oldest first
};

}  // namespace rondo
