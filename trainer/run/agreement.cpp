#include "trainer/run/agreement.h"

#include <algorithm>
#include <vector>

#include "support/stop_signal.h"
#include "support/stopwatch.h"
#include "trainer/run/batch_feed.h"
#include "trainer/run/guards.h"
#include "trainer/run/run.h"
#include "trainer/run/saves.h"
#include "trainer/run/telemetry.h"

namespace rondo {

Agreement request_of_rank(StopRequests* requests, const Telemetry& telemetry, const BatchFeed& feed) {
  Agreement own;
  own.labels = feed.labels();
  if (requests != nullptr) own.request = requests->look();
  own.signal = stop_requested().value_or(0);
  if (own.signal != 0) own.request = StopRequest::signal;
  if (telemetry.is_writer() && own.request < StopRequest::full_disk && !telemetry.report()->trouble().empty())
    own.request = StopRequest::full_disk;
  if (feed.trouble()) own.request = std::max(own.request, StopRequest::data);
  return own;
}

Agreement agree(Run& run, const Agreement& own, Saves& saves, Guards& guards) {
  const StepWatch::Span watched(*run.watch, progress::Doing::agreeing);
  const Stopwatch waiting;
  const std::vector<std::int64_t> maxima =
      run.groups->maximum({static_cast<std::int64_t>(own.request), own.signal, saves.writing(), own.labels});
  guards.waited(waiting.seconds());
  if (maxima[2] == 0) saves.settle();
  return {static_cast<StopRequest>(maxima[0]), static_cast<int>(maxima[1]), maxima[3]};
}

}  // namespace rondo
