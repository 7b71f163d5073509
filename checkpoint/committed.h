// Reads a committed checkpoint: the name of its folder, its mark and its manifest.
//
// The checkpoint folder (the *root*) contains
//   step-N                    a checkpoint; committed if it has a valid COMMITTED
//   step-N-weights            the weights of step N alone, as a separate checkpoint
//   step-N.replaced-K         the K-th earlier checkpoint of step N, moved aside when N was saved
//                             again; as valid as any other
//   step-N.tmp-RUN-ATTEMPT    an unfinished save, or a leftover of one
//   step-N.trash-K            a checkpoint that is being deleted, or a leftover of one
// Nothing here touches any other file in it.
//
// COMMITTED has one line, "manifest.json <bytes> xxh3-128 <32 hexadecimal digits>", for the
// manifest in the same folder. It is valid only if it is exactly this line.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/manifest.h"

namespace rondo::checkpoint {

inline constexpr const char* kManifestFile = "manifest.json";
inline constexpr const char* kCommittedFile = "COMMITTED";
inline constexpr std::string_view kWeights = "-weights";  // step-N-weights

struct FolderName {
  enum class Role { checkpoint, weights, replaced, temp, trash };
  std::int64_t step = 0;
  Role role = Role::checkpoint;
  std::int64_t number = 0;  // K, or 0 for roles without K
  bool is_leftover() const { return role == Role::temp || role == Role::trash; }
};
// Returns nullopt for any other name.
std::optional<FolderName> parse_folder_name(std::string_view name);
// Returns "step-N.<word>-K" with the smallest K >= 1 that is free in `root`.
std::filesystem::path free_name(const std::filesystem::path& root, std::int64_t step, std::string_view word);

std::string committed_text(std::string_view manifest_text);

// Returns whether COMMITTED exists, regardless of its content. Throws FileError when the file
// system fails.
bool has_mark(const std::filesystem::path& folder);

// Returns the manifest, checked against COMMITTED, the format, and the step in the folder's name.
// Throws Error(checkpoint) naming what is missing or wrong.
Manifest read_committed(const std::filesystem::path& folder);

// Returns the folders of ROOT with such names, including links to folders. Newest first: by step,
// then the checkpoint, its weights, the ones it replaced. Empty when ROOT is missing.
std::vector<std::pair<FolderName, std::filesystem::path>> named_folders(const std::filesystem::path& root);

// Checks that every shard exists and has its size in the manifest. Throws Error(checkpoint) naming
// the first that does not.
void check_sizes(const std::filesystem::path& folder, const Manifest& manifest);
void check_size(const std::filesystem::path& shard, std::int64_t bytes, std::int64_t expected);

// Returns the message for a chunk with the wrong hash.
std::string chunk_problem(const std::filesystem::path& file, std::int64_t chunk, std::int64_t bytes,
                          const ChunkHash& found, const ChunkHash& expected);

}  // namespace rondo::checkpoint
