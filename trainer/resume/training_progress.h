// Where a run stands, beside its tensors: what a checkpoint keeps of it so that a resumed run goes on as if
// it had never stopped.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/manifest.h"
#include "datasets/loader.h"

namespace rondo {

struct TrainingProgress {
  std::int64_t step = 0;           // optimizer steps done
  std::int64_t schedule_step = 0;  // the same for the learning rate; differs where a schedule began anew
  std::int64_t tokens_seen = 0;    // over all ranks
  DataState data;                  // of the next step
  // What was asked for when this line of steps began, so that a later resume does not do it again.
  std::int64_t went_back_to = -1;         // checkpoint.load_step
  std::vector<std::string> began_anew{};  // checkpoint.exclude_from_loading
};

// What a manifest says of it, and back. REQUIRES a manifest of a run, which parse_manifest has checked.
void put_progress(const TrainingProgress& progress, checkpoint::Manifest& manifest);
TrainingProgress progress_of(const checkpoint::Manifest& manifest);

// Which run saved it: RunFolder::begun(). Empty where the manifest does not say.
void put_begun(const std::string& begun, checkpoint::Manifest& manifest);
std::string begun_of(const checkpoint::Manifest& manifest);

}  // namespace rondo
