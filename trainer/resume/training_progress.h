// The progress of a run, which a checkpoint stores with its tensors so that a resumed run
// continues exactly.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "checkpoint/manifest.h"
#include "datasets/loader.h"

namespace rondo {

struct TrainingProgress {
  std::int64_t step = 0;           // optimizer steps done
  std::int64_t schedule_step = 0;  // steps of the learning rate schedule; differs if the schedule was reset
  std::int64_t tokens_seen = 0;    // over all ranks
  DataState data;                  // of the next step
  // Settings of earlier starts of this run that a later start must not apply again.
  std::int64_t went_back_to = -1;  // checkpoint.load_step
  // The parts of checkpoint.exclude_from_loading that the run has reset, and the steps after which
  // it did; -1: unknown, an older version recorded no step.
  std::map<std::string, std::int64_t> reset_parts{};
};

// Write to and read from a manifest. REQUIRES: a manifest of a run, which parse_manifest
// has checked.
void put_progress(const TrainingProgress& progress, checkpoint::Manifest& manifest);
TrainingProgress progress_of(const checkpoint::Manifest& manifest);

// Write and read the run that saved a checkpoint: RunFolder::begun(). Empty if the manifest
// has none.
void put_begun(const std::string& begun, checkpoint::Manifest& manifest);
std::string begun_of(const checkpoint::Manifest& manifest);

}  // namespace rondo
