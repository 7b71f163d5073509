// Which checkpoints there are below a root, and which of them can be believed.
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
  committed,    // manifest and sizes are right
  damaged,      // marked as committed, but not as it was written
  uncommitted,  // a save that died after its rename, or a copy that is not complete
  temp,         // a save under way, or what a save or a prune left
};
const char* state_name(State state);

struct Entry {
  std::filesystem::path folder;
  std::int64_t step = 0;
  State state = State::committed;
  std::string why;                   // one sentence where the state is not `committed`
  std::optional<Manifest> manifest;  // where the state is `committed`
};

// In the order of named_folders. Reads manifests and sizes, no shard. Throws FileError where ROOT cannot be
// read, or the file system fails.
std::vector<Entry> list(const std::filesystem::path& root);

enum class Depth {
  manifest,  // COMMITTED and manifest: what many ranks may ask for at once
  quick,     // and the size of each shard
  sample,    // and 8 chunks, from the disk itself where the kernel can
  full,      // and every chunk, on all cores
};

struct Verdict {
  std::vector<std::string> problems;  // none: valid
  std::int64_t bytes_read = 0;        // of shards
  bool valid() const { return problems.empty(); }
};
// Never throws for what is wrong with the checkpoint. Where `stop` is requested it returns soon, with what it
// has found so far.
Verdict verify(const std::filesystem::path& folder, Depth depth, const std::stop_token& stop = {});

struct Skipped {
  std::filesystem::path folder;
  std::string why;
};
struct Selection {
  std::optional<Entry> newest;   // none: nothing verifies
  std::vector<Skipped> skipped;  // newer than it, and why each was passed over
};
// The newest that verifies to this depth; what is older is not looked at. Throws as `list` does: none is
// passed over because a file system fails. `except`: folders that the caller has found wanting.
Selection newest_valid(const std::filesystem::path& root, Depth depth,
                       const std::vector<std::filesystem::path>& except = {});

}  // namespace rondo::checkpoint
