// Exchanges host data once per step: requests to any rank, and whether any rank is writing a save.
// All ranks then act in the same way.
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
  int signal = 0;           // with StopRequest::signal
  std::int64_t labels = 0;  // of the next batch, on the rank that has the most

  bool stops() const { return request > StopRequest::save; }
  bool saves() const { return request == StopRequest::save; }
};

// Returns the request to this rank: a signal, the run folder or the clock (`requests`, only on rank
// 0), a disk that fails to store metrics, or a batch that cannot be read.
Agreement request_of_rank(StopRequests* requests, const Telemetry& telemetry, const BatchFeed& feed);
// Exchanges the requests of all ranks and commits a save that all have written. Collective.
Agreement agree(Run& run, const Agreement& own, Saves& saves, Guards& guards);

}  // namespace rondo
