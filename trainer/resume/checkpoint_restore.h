// Restores the state that a run starts with: its own newest valid checkpoint, what
// checkpoint.initial_load_path names, or fresh weights. Reads a checkpoint of any number of ranks
// into this run's shards.
//
// All ranks make the same calls. Rank 0 chooses, and all ranks skip a checkpoint that proves
// damaged on any of them.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "config/derived/layout.h"
#include "config/schema/job_config.h"
#include "models/parts/decoder.h"
#include "parallel/groups/groups.h"
#include "trainer/resume/training_progress.h"
#include "trainer/step/lr_schedule.h"
#include "trainer/step/train_state.h"

namespace rondo {

struct Restored {
  TrainingProgress progress;
  std::optional<RatesOfSaved> rates;  // of a checkpoint whose optimizer continues, if it has settings
  bool resumed = false;               // from a checkpoint of this run, which continues it
  bool went_back = false;             // checkpoints of later steps may exist, which do not belong to this run
  std::filesystem::path from;         // empty: fresh weights
};

struct RestoreRequest {
  const JobConfig& config;
  std::filesystem::path root;  // the folder of the run's checkpoints
  const Layout& layout;
  const Decoder& model;
  DataState data;                     // of a run that starts from step 0
  std::vector<std::string> settings;  // of this run, in the form of the manifest
};

// The start of a run, according to names, manifests and headers.
struct Start {
  std::filesystem::path checkpoint;        // the run's own checkpoint; empty: it starts from step 0
  std::optional<std::int64_t> done;        // completed steps of a resumed run
  std::int64_t step = 0, tokens_seen = 0;  // that the run continues from, also another run's
  std::string begun;                       // RunFolder::begun() of that run; empty if the checkpoint has none
  bool finished = false;                   // all steps are done, and all requested exports exist
};

// Checks what the run will start with, before anything is traced, read or written, and before the
// rendezvous. Throws what `restore` would throw. The first rank checks the size of each shard,
// names what it skips, and chooses for all ranks. The others read manifests only, but reach the
// same result when the run is finished.
Start check_start(const RestoreRequest& request, bool first);

// Fills `parts` (tensors of the state) from a checkpoint or weights, if there are any. Throws
// Error(checkpoint) if there are checkpoints but none is usable, or if they belong to another
// model; Error(data) if the data differs.
Restored restore(const RestoreRequest& request, const Start& start, const std::vector<StatePart>& parts,
                 ProcessGroups& groups);

}  // namespace rondo
