// A save, step by step. What must happen in which order, and who does it:
//
//   1. rank 0   begin_save       makes ROOT/step-N.tmp-RUN-ATTEMPT, durably
//   2. rank 0   check_space      with the sum of all ranks' shard_bytes
//   3. all      write_shard      (shard.h) into that folder; each sends to_text(ShardRecord) to rank 0
//   4. rank 0   Manifest::add    for each rank, ascending; then
//      rank 0   commit           manifest.json, fsync; fsync of the folder; rename to step-N; fsync of ROOT;
//                                COMMITTED by rename, fsync of the folder
//   5. all      agree that it is done; only then rank 0 may `prune` (prune.h)
// A failure anywhere: rank 0 calls `abandon`, and training may go on. Until COMMITTED stands, no reader takes
// the folder for a checkpoint; and no step removes one that is committed.
//
// One process at a time may change ROOT: `lock_root` sees to that.
// Errors: Error(resources) where space, quota or a limit ran out, else Error(checkpoint).
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

// Makes ROOT where it is missing, and keeps all others from changing it while the result lives. Throws
// Error(environment) where it cannot be written, or another process holds it, by whatever path or link.
FolderLock lock_root(const std::filesystem::path& root);

// Makes ROOT where it is missing, and an empty temporary folder in it. `run` has letters, digits, '-' and
// '_'.
std::filesystem::path begin_save(const std::filesystem::path& root, std::int64_t step, std::string_view run,
                                 int attempt);

// Throws Error(resources) unless the file system of `folder` has room for so many bytes and files, and 5 %
// more of each. File systems that do not count files pass.
void check_space(const std::filesystem::path& folder, std::int64_t bytes, std::int64_t files);

// Makes a checkpoint of `temp`, and returns its folder: ROOT/step-<manifest.step>, and then `suffix`, which
// is kWeights for weights that stand beside a full checkpoint. All shards must lie in `temp`, complete. Where
// ROOT/step-N is there already: a committed one (the run went back to an older step and came by again) is
// moved to step-N.replaced-K and stays as valid as it was until `prune` has a newer one; an uncommitted one
// is what a dead save left, and is removed. After an error the step is not committed as far as the caller may
// rely on it; whatever was committed before is.
std::filesystem::path commit(const std::filesystem::path& root, const std::filesystem::path& temp,
                             const Manifest& manifest, std::string_view suffix = "");

// Removes the temporary folder of a save that failed, as far as it can; what stays is swept later.
void abandon(const std::filesystem::path& temp) noexcept;

// Removes what dead saves and prunes left (*.tmp-*, *.trash-*; real folders only), and returns their paths.
// Where `stop` is requested, the one at hand is the last.
// REQUIRES: the run's lock is held, and no save into ROOT is under way.
std::vector<std::filesystem::path> sweep_leftovers(const std::filesystem::path& root,
                                                   const std::stop_token& stop = {});

// Moves every checkpoint of a later step than `step`, and what was exported from it (step-N-hf), to
// ROOT/abandoned-K, durably, and returns that folder;
// nothing where there is none. For a run that goes back: what it left behind is neither resumed from nor
// deleted. REQUIRES: as sweep_leftovers.
std::optional<std::filesystem::path> set_aside_newer(const std::filesystem::path& root, std::int64_t step);

}  // namespace rondo::checkpoint
