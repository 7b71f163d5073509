// Which model the user means with a path: a Hugging Face folder, a checkpoint, or a run whose newest
// committed checkpoint is taken; and what is known around it. Knows files and no tensors.
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

// What find_model takes, for the help of a command.
inline constexpr const char* kModelSource =
    "a Hugging Face folder, a step-N folder, or a run folder, whose newest committed checkpoint is taken";

// The folder of checkpoints that `given` means: itself, or that of a run, as the run's configuration says.
std::filesystem::path checkpoint_root_of(const std::filesystem::path& given);

// `path`: a Hugging Face folder; a step-N folder; a run folder, or its folder of checkpoints. Throws
// Error(checkpoint) where it is no folder, and where it holds neither.
ModelSource find_model(const std::filesystem::path& path);

// The configuration of the run whose folder holds the checkpoint; nullopt where there is none.
std::optional<JobConfig> config_of_run(const ModelSource& model);

// "bytes", or a path that load_tokenizer takes: `given` where that is not empty, else that of the folder or
// of the run. Throws Error(data) where neither has one.
std::string tokenizer_of(const ModelSource& model, const std::string& given);

}  // namespace rondo
