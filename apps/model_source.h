// Resolves the path of a model: a Hugging Face folder, a checkpoint, or a run (its newest committed
// checkpoint). Also finds the run's configuration and tokenizer. Reads files but no tensors.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "config/schema/job_config.h"

namespace rondo {

struct ModelSource {
  std::filesystem::path folder;  // a Hugging Face folder, or a step-N folder
  bool hugging_face = false;
};

// Describes the argument of find_model, for help texts.
inline constexpr const char* kModelSource =
    "a Hugging Face folder, a step-N folder, or a run folder (uses its newest committed checkpoint)";

// Returns the folder of checkpoints: `given`, or for a run folder the one in the run's
// configuration.
std::filesystem::path checkpoint_root_of(const std::filesystem::path& given);

// Finds the model. `path`: a Hugging Face folder, a step-N folder, a run folder, or its folder of
// checkpoints. Throws Error(checkpoint) if it is not a folder or has no model.
ModelSource find_model(const std::filesystem::path& path);

// Returns the configuration of the run whose folder has the checkpoint, or nullopt.
std::optional<JobConfig> config_of_run(const ModelSource& model);

// Returns "bytes" or a path for load_tokenizer: `given` unless it is empty, else the tokenizer of
// the folder or of the run. Throws Error(data) if neither has one.
std::string tokenizer_of(const ModelSource& model, const std::string& given);

}  // namespace rondo
