// Saves a checkpoint in steps. Their order, and the ranks that take them:
//
//   1. rank 0   begin_save       creates ROOT/step-N.tmp-RUN-ATTEMPT, durably
//   2. rank 0   check_space      with the sum of all ranks' shard_bytes
//   3. all      write_shard      (shard.h) into that folder; each rank sends to_text(ShardRecord)
//                                to rank 0
//   4. rank 0   Manifest::add    for each rank, ascending; then
//      rank 0   commit           manifest.json, fsync; fsync of the folder; rename to step-N; fsync
//                                of ROOT; COMMITTED by rename, fsync of the folder
//   5. all      agree that the save is done; only then may rank 0 `prune` (prune.h)
// After a failure in any step, rank 0 calls `abandon`, and training may continue. Until COMMITTED
// exists, no reader takes the folder for a checkpoint. No step removes a committed checkpoint.
//
// One process at a time may change ROOT; `lock_root` ensures this. Errors: Error(resources) when
// space, quota or a limit is exhausted, otherwise Error(checkpoint).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <stop_token>
#include <string_view>
#include <vector>

#include "checkpoint/manifest.h"
#include "support/files/folder_lock.h"

namespace rondo::checkpoint {

// Creates ROOT if it is missing, and locks it for the lifetime of the result. Throws
// Error(environment) when ROOT cannot be written, or another process has locked it, by any path
// or link.
FolderLock lock_root(const std::filesystem::path& root);

// Creates ROOT if it is missing, and an empty temporary folder in it. REQUIRES: `run` has only
// letters, digits, '-' and '_'.
std::filesystem::path begin_save(const std::filesystem::path& root, std::int64_t step, std::string_view run,
                                 int attempt);

// Throws Error(resources) unless the file system of `folder` has room for these bytes and files,
// plus 5 % of each. File systems that do not count files pass.
void check_space(const std::filesystem::path& folder, std::int64_t bytes, std::int64_t files);

// Turns `temp` into a checkpoint and returns its folder: ROOT/step-<manifest.step> followed by
// `suffix`, which is kWeights for weights next to a full checkpoint. REQUIRES: `temp` has all
// shards, complete. If ROOT/step-N exists and is committed (the run went back to an older step and
// reached this one again), it is moved to step-N.replaced-K. It stays valid until `prune` has a
// newer one. An uncommitted one is a leftover of a killed save and is removed. After an error the
// caller must treat the step as not committed; earlier commits are unaffected.
std::filesystem::path commit(const std::filesystem::path& root, const std::filesystem::path& temp,
                             const Manifest& manifest, std::string_view suffix = "");

// Removes the temporary folder of a failed save as far as possible; sweep_leftovers removes
// the rest.
void abandon(const std::filesystem::path& temp) noexcept;

// Removes leftovers of killed saves and prunes (*.tmp-*, *.trash-*; real folders only), and returns
// their paths. When `stop` is requested, the current one is the last. REQUIRES: the run's lock is
// held, and no save into ROOT is unfinished.
std::vector<std::filesystem::path> sweep_leftovers(const std::filesystem::path& root,
                                                   const std::stop_token& stop = {});

// Moves every checkpoint of a later step than `step`, and its exports (step-N-hf), to
// ROOT/abandoned-K, durably. Returns that folder, or nullopt if there are none. For a run that goes
// back: the later checkpoints are neither resumed from nor deleted. REQUIRES: as sweep_leftovers.
std::optional<std::filesystem::path> set_aside_newer(const std::filesystem::path& root, std::int64_t step);

}  // namespace rondo::checkpoint
