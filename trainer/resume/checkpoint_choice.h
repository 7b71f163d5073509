// Chooses which of its checkpoints a run resumes from. Uses files, not tensors.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/catalog.h"
#include "config/schema/job_config.h"

namespace rondo {

// Returns the newest committed checkpoint that can be resumed from, or the one that
// checkpoint.load_step names; empty: the run starts from step 0. Verifies to `depth`. If it
// `warns`, it names each skipped checkpoint. `except`: checkpoints that proved damaged when they
// were read. Throws Error(checkpoint) if there are checkpoints but none is usable, and FileError if
// the file system fails.
std::filesystem::path choose_checkpoint(const JobConfig& config, const std::filesystem::path& root,
                                        const std::vector<std::filesystem::path>& except,
                                        checkpoint::Depth depth, bool warns);

// Checks `folder`, which this rank received from rank 0 through the store, before this rank reads
// or writes it. Throws Error(config) with both paths unless `folder` is directly in `root`, the
// folder of checkpoints of this rank's configuration. Returns `folder`.
std::filesystem::path received_folder(const std::string& folder, const std::filesystem::path& root, int rank);

}  // namespace rondo
