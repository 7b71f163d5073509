// Deleting old checkpoints, never the last good one.
#pragma once

#include <filesystem>
#include <vector>

#include "trainer/checkpoint/catalog.h"

namespace rondo::checkpoint {

struct PruneReport {
  std::vector<std::filesystem::path> kept;     // the valid ones that remain of those counted
  std::vector<std::filesystem::path> deleted;  // or, in a dry run, what would be
  std::vector<Skipped> damaged;                // newer than the last kept one; left for people to look at
};

// Keeps the `keep` newest valid checkpoints and deletes what is older: valid, damaged and uncommitted alike;
// also the trash of earlier prunes. 0 keeps all. Before anything is deleted, the newest is read again from
// the disk: COMMITTED, manifest, sizes and a sample of chunks; if it fails, the next counts as the newest.
// Where nothing verifies, nothing is deleted.
// A checkpoint goes in three steps: COMMITTED, durably; the name; the contents. So one that is half deleted
// is never taken for a whole one.
// REQUIRES: no save is under way in this process. Throws FileError; what stays is deleted by the next call.
PruneReport prune(const std::filesystem::path& root, int keep, bool dry_run = false);

}  // namespace rondo::checkpoint
