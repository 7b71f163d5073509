// A committed checkpoint as a folder: its name, its mark, its manifest.
//
// Below the checkpoint folder (the *root*) stand
//   step-N                    a checkpoint; committed once it holds a valid COMMITTED
//   step-N-weights            the weights of step N alone, as a checkpoint of their own
//   step-N.replaced-K         the K-th earlier checkpoint of step N, moved aside when N was saved again; as
//                             valid as any other
//   step-N.tmp-RUN-ATTEMPT    a save under way, or what is left of one
//   step-N.trash-K            a checkpoint on its way out, or what is left of it
// and whatever else people put there, which nothing here touches.
//
// COMMITTED holds one line, "manifest.json <bytes> xxh3-128 <32 hexadecimal digits>", of the manifest beside
// it, and is believed only if it is exactly that.
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
  std::int64_t number = 0;  // K, where there is one
  bool is_leftover() const { return role == Role::temp || role == Role::trash; }
};
// nullopt: not one of ours.
std::optional<FolderName> parse_folder_name(std::string_view name);
// "step-N.<word>-K" with the first K from 1 on that is free in `root`.
std::filesystem::path free_name(const std::filesystem::path& root, std::int64_t step, std::string_view word);

std::string committed_text(std::string_view manifest_text);

// Whether COMMITTED is there, whatever it says. Throws FileError where the file system does not tell.
bool has_mark(const std::filesystem::path& folder);

// The manifest, checked against COMMITTED, against the format, and against the step in the folder's name.
// Throws Error(checkpoint) that says what is missing or wrong.
Manifest read_committed(const std::filesystem::path& folder);

// The folders of ROOT with such names, links to folders too, newest first: by step; of one step, the
// checkpoint, its weights alone, those that it replaced. Empty where ROOT is missing.
std::vector<std::pair<FolderName, std::filesystem::path>> named_folders(const std::filesystem::path& root);

// Every shard is there and as long as the manifest says; throws Error(checkpoint) naming the first that is
// not.
void check_sizes(const std::filesystem::path& folder, const Manifest& manifest);
void check_size(const std::filesystem::path& shard, std::int64_t bytes, std::int64_t expected);

// The sentence about a chunk whose bytes are not those that were written.
std::string chunk_problem(const std::filesystem::path& file, std::int64_t chunk, std::int64_t bytes,
                          const ChunkHash& found, const ChunkHash& expected);

}  // namespace rondo::checkpoint
