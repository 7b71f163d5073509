// Whether what a run shall begin with is of its model and its data. Reads manifests and headers, no tensor.
#pragma once

#include <string>

#include "models/parts/decoder.h"
#include "support/error.h"
#include "trainer/checkpoint/manifest.h"
#include "trainer/config/schema/job_config.h"
#include "trainer/hugging_face/folder.h"

namespace rondo {

// A sound checkpoint or folder that is not this run's: passing over it in silence would hide the user's
// mistake.
struct Misfit : Error {
  explicit Misfit(const std::string& message) : Error(ExitCode::checkpoint, message) {}
};

// A checkpoint of the run's own. Throws Misfit with the keys to set.
void check_own(const checkpoint::Manifest& manifest, const JobConfig& config, const std::string& where);
// Another run's, to begin with. Only the longest sequence may differ. Throws Misfit with the keys to set.
void check_initial(const checkpoint::Manifest& manifest, const JobConfig& config, const std::string& where);
// Likewise. Throws Error(checkpoint), too, where the folder does not hold the model that it announces.
void check_initial(const hugging_face::Folder& folder, const JobConfig& config, const Decoder& model);

}  // namespace rondo
