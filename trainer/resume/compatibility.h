// Whether what a run shall begin with is of its model and its data. Reads manifests and headers, no tensor.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/hugging_face/folder.h"
#include "checkpoint/manifest.h"
#include "config/schema/job_config.h"
#include "models/parts/decoder.h"
#include "support/error.h"

namespace rondo {

// A sound checkpoint or folder that is not this run's: passing over it in silence would hide the user's
// mistake.
struct Misfit : Error {
  explicit Misfit(const std::string& message) : Error(ExitCode::checkpoint, message) {}
};

// A checkpoint of the run's own. Throws Misfit with the keys to set.
void check_own(const checkpoint::Manifest& manifest, const JobConfig& config, const std::string& where);
// That the optimizer of `manifest` means the same in this run: it updates in the same way, and its dtype is
// this run's. Throws Misfit with the key to set.
void check_optimizer(const checkpoint::Manifest& manifest, const JobConfig& config, const std::string& where);
// What else changes the numbers that come next, a line each, the first ten: "optimizer.lr: 0.0008 in the
// checkpoint, 0.5 now". `settings` are this run's.
std::vector<std::string> told_changes(const checkpoint::Manifest& manifest,
                                      const std::vector<std::string>& settings);
// Another run's, to begin with. Only the longest sequence may differ. Throws Misfit with the keys to set.
void check_initial(const checkpoint::Manifest& manifest, const JobConfig& config, const std::string& where);
// Likewise. Throws Error(checkpoint), too, where the folder does not hold the model that it announces.
void check_initial(const hugging_face::Folder& folder, const JobConfig& config, const Decoder& model);

}  // namespace rondo
