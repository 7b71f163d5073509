// Which state a run begins with: its own newest checkpoint that verifies, what checkpoint.initial_load_path
// names, or fresh weights. Reads a checkpoint of any number of ranks into this run's shards.
//
// All ranks make the same calls; rank 0 chooses, and all ranks pass over a checkpoint that proves damaged on
// any of them.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "config/schema/job_config.h"
#include "models/parts/decoder.h"
#include "parallel/groups/groups.h"
#include "trainer/resume/training_progress.h"
#include "trainer/step/train_state.h"

namespace rondo {

struct Restored {
  TrainingProgress progress;
  bool resumed = false;    // from a checkpoint of this run: it goes on as if it had not stopped
  bool went_back = false;  // there may be checkpoints of later steps, which are no part of this run any more
  std::filesystem::path from;  // empty: fresh weights
};

struct RestoreRequest {
  const JobConfig& config;
  std::filesystem::path root;  // the folder of the run's own checkpoints
  const Decoder& model;
  DataState data;                     // of a run that begins
  std::vector<std::string> settings;  // of this run, as the manifest keeps them
};

// What a run will begin with, as far as names, manifests and headers tell.
struct Start {
  std::filesystem::path checkpoint;  // of its own; empty: it begins anew
  std::optional<std::int64_t> done;  // steps that a run which resumes has behind it
  std::string begun;                 // of that run, as RunFolder::begun; empty where the checkpoint has none
  bool finished = false;             // all of them, and nothing that was asked for is missing
};

// Before anything is traced, read or written, and before other ranks are met. Throws what `restore` would.
// The first rank looks at the size of each shard, names what it passes over, and chooses for all; the others
// read manifests alone, but come to the same answer where the run is finished.
Start check_start(const RestoreRequest& request, bool first);

// Fills `parts` (tensors of the state), as far as there is something to fill them with. Throws
// Error(checkpoint) where there are checkpoints and none of them will do, and where what is there is of
// another model; Error(data) where the data is another.
Restored restore(const RestoreRequest& request, const Start& start, const std::vector<StatePart>& parts,
                 ProcessGroups& groups);

}  // namespace rondo
