#include "trainer/run/batch_feed.h"

#include "support/stopwatch.h"

namespace rondo {

std::optional<StepBatch> BatchFeed::read(DataLoader& data) {
  if (trouble_) return std::nullopt;
  const progress::Work loading(progress::Doing::loading);
  try {
    return data.next();
  } catch (const Error& error) {
    if (run_.steps_read == 0) throw;
    trouble_ = error;
    return std::nullopt;
  }
}

void BatchFeed::fetch() {
  const StepWatch::Span watched(*run_.watch, progress::Doing::loading);
  const Stopwatch waiting;
  if (std::optional<StepBatch> batch = read(*run_.data)) batch_ = std::move(*batch);
  wait_s_ = waiting.seconds();
}

}  // namespace rondo
