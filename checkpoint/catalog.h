// Lists, verifies and selects the checkpoints of a root folder. A run may save and delete there
// meanwhile: what it deletes is not taken for damaged.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "checkpoint/manifest.h"

namespace rondo::checkpoint {

enum class State {
  committed,    // manifest and sizes are intact
  damaged,      // marked as committed, but its contents differ from what was written
  uncommitted,  // a save that was killed after its rename, or an incomplete copy
  temp,         // an unfinished save, or a leftover of a save or a prune
};
const char* state_name(State state);

struct Entry {
  std::filesystem::path folder;
  std::int64_t step = 0;
  State state = State::committed;
  std::string why;                   // the reason, one sentence, if the state is not `committed`
  std::optional<Manifest> manifest;  // present if the state is `committed`
};

// Returns the checkpoints in the order of named_folders. Reads manifests and sizes, no shard.
// Throws FileError when ROOT cannot be read or the file system fails.
std::vector<Entry> list(const std::filesystem::path& root);

enum class Depth {
  manifest,  // COMMITTED and manifest: cheap enough for many ranks at once
  quick,     // also the size of each shard
  sample,    // also 8 chunks, bypassing the page cache where the kernel can
  full,      // also every chunk, on all cores
};

struct Verdict {
  std::vector<std::string> problems;  // empty: valid
  bool has_mark = true;               // after the verification; a run that deletes removes the mark first
  std::int64_t bytes_read = 0;        // bytes of shards
  bool valid() const { return problems.empty(); }
  // Returns whether a checkpoint that was listed as committed has been deleted meanwhile.
  bool is_deleted() const { return !valid() && !has_mark; }
};
// Verifies a checkpoint. Never throws for damage. When `stop` is requested, returns soon with the
// problems found so far.
Verdict verify(const std::filesystem::path& folder, Depth depth, const std::stop_token& stop = {});

struct Skipped {
  std::filesystem::path folder;
  std::string why;
};
struct Selection {
  std::optional<Entry> newest;   // nullopt: no checkpoint verifies
  std::vector<Skipped> skipped;  // newer checkpoints, and why each was skipped
};
// Returns the newest checkpoint that verifies to this depth; older ones are not read. Throws as
// `list` does: a failing file system never makes it skip a checkpoint. `except`: folders that the
// caller has rejected.
Selection newest_valid(const std::filesystem::path& root, Depth depth,
                       const std::vector<std::filesystem::path>& except = {});

}  // namespace rondo::checkpoint
