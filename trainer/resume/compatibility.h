// Checks that checkpoints and folders are compatible with a run's model and optimizer. Reads
// manifests and headers, no tensors.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/hugging_face/folder.h"
#include "checkpoint/manifest.h"
#include "config/derived/layout.h"
#include "config/schema/job_config.h"
#include "models/parts/decoder.h"
#include "support/error.h"

namespace rondo {

// A valid checkpoint or folder that does not match this run. Skipping it silently would hide a
// mistake of the user.
struct Misfit : Error {
  explicit Misfit(const std::string& message) : Error(ExitCode::checkpoint, message) {}
};

// Checks the model of a checkpoint of the run itself. Throws Misfit with the keys to set.
void check_own(const checkpoint::Manifest& manifest, const JobConfig& config, const std::string& where);
// Checks that the optimizer state of `manifest` is valid in this run: same optimizer, same dtype.
// Throws Misfit with the key to set.
void check_optimizer(const checkpoint::Manifest& manifest, const JobConfig& config, const std::string& where);
// Checks that training.global_batch_size = -1 does not change the batch of the checkpoint because
// this run has another number of data-parallel ranks. Throws Error(config) with what to set to keep
// the batch, and to change it.
void check_batch(const checkpoint::Manifest& manifest, const JobConfig& config, const Layout& layout,
                 const std::string& where);
// Returns a line for each setting that several keys decide together and that has changed: the batch
// in sequences and tokens, and the weight decay of `model`.
std::vector<std::string> effect_change_lines(const checkpoint::Manifest& manifest, const JobConfig& config,
                                             const Layout& layout, const Decoder& model);
// Returns the other changed settings that affect numbers, one line each, at most ten:
// "optimizer.lr: 0.0008 in the checkpoint, 0.5 now". `settings`: of this run.
std::vector<std::string> setting_change_lines(const checkpoint::Manifest& manifest,
                                              const std::vector<std::string>& settings);
// Checks the model of another run's checkpoint, to start from. Only the longest sequence may
// differ. Throws Misfit with the keys to set.
void check_initial(const checkpoint::Manifest& manifest, const JobConfig& config, const std::string& where);
// Checks the model of a Hugging Face folder in the same way. Also throws Error(checkpoint) if the
// folder lacks tensors of its config.json.
void check_initial(const hugging_face::Folder& folder, const JobConfig& config, const Decoder& model);

}  // namespace rondo
