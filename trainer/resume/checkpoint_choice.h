// Which of its own checkpoints a run goes on from. Knows files and no tensors.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/catalog.h"
#include "config/schema/job_config.h"

namespace rondo {

// The newest that is committed and can be resumed from, or the one that checkpoint.load_step names; empty:
// the run begins anew. Verifies to `depth`. Where it `warns`, it names each that it passes over. `except`:
// those that proved damaged when they were read. Throws Error(checkpoint) where there are checkpoints and
// none will do, FileError where the file system fails.
std::filesystem::path choose_checkpoint(const JobConfig& config, const std::filesystem::path& root,
                                        const std::vector<std::filesystem::path>& except,
                                        checkpoint::Depth depth, bool warns);

// `folder`, which rank 0 told through the store, as this rank may write to it and read from it: throws
// Error(config) with both unless it lies right in `root`, the folder of checkpoints of its own configuration.
std::filesystem::path told_folder(const std::string& folder, const std::filesystem::path& root, int rank);

}  // namespace rondo
