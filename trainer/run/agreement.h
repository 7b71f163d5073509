// The one exchange of host data a step: what any rank was asked for, and whether any still writes a save. All
// ranks then do the same.
#pragma once

#include <cstdint>

#include "trainer/run/stop_request.h"

namespace rondo {

class BatchFeed;
class Guards;
class Saves;
class Telemetry;
struct Run;

// The most urgent request of one rank, or of all.
struct Agreement {
  StopRequest request = StopRequest::none;
  int signal = 0;  // with StopRequest::signal

  bool stops() const { return request > StopRequest::save; }
  bool saves() const { return request == StopRequest::save; }
};

// What this rank was asked for: by a signal, by the run folder or the clock (`requests`, rank 0's), by a disk
// that takes no metrics, or by a batch that it cannot read.
Agreement request_of_rank(StopRequests* requests, const Telemetry& tell, const BatchFeed& feed);
// Exchanges the requests of all ranks and commits a save that all have written. Collective.
Agreement agree(Run& run, const Agreement& own, Saves& saves, Guards& guards);

}  // namespace rondo
