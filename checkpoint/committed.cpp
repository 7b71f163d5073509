// The mark is not parsed. It is rebuilt from the manifest on disk and compared as text, so any
// other content counts as damage. Names are parsed strictly, without signs or leading zeros, so
// that no other folder is taken for a checkpoint. lstat does not follow links: a link in place of a
// shard is refused, and a dangling link still occupies its name.
#include "checkpoint/committed.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <tuple>

#include "checkpoint/files.h"
#include "support/error.h"
#include "support/files/hub_advice.h"
#include "support/printable.h"
#include "support/text/numbers.h"

namespace rondo::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMaxMarkBytes = 4096;

// Parses a number as this program writes it: no sign, no leading zero.
std::optional<std::int64_t> plain_number(std::string_view digits) {
  if (digits.starts_with('-') || (digits.size() > 1 && digits.starts_with('0'))) return std::nullopt;
  return number_in<std::int64_t>(digits, 0, std::numeric_limits<std::int64_t>::max());
}

}  // namespace

std::optional<FolderName> parse_folder_name(std::string_view name) {
  using Role = FolderName::Role;
  constexpr std::string_view kStep = "step-";
  if (!name.starts_with(kStep)) return std::nullopt;
  name.remove_prefix(kStep.size());
  const std::size_t digits = std::min(name.find_first_of(".-"), name.size());
  const auto step = plain_number(name.substr(0, digits));
  if (!step) return std::nullopt;
  const std::string_view rest = name.substr(digits);
  if (rest.empty()) return FolderName{*step, Role::checkpoint, 0};
  if (rest == kWeights) return FolderName{*step, Role::weights, 0};
  if (rest.starts_with(".tmp-") && rest.size() > 5) return FolderName{*step, Role::temp, 0};
  for (const auto& [word, role] :
       {std::pair{".replaced-", Role::replaced}, std::pair{".trash-", Role::trash}}) {
    if (!rest.starts_with(word)) continue;
    if (const auto number = plain_number(rest.substr(std::string_view(word).size())))
      return FolderName{*step, role, *number};
  }
  return std::nullopt;
}

fs::path free_name(const fs::path& root, std::int64_t step, std::string_view word) {
  for (int number = 1;; ++number) {
    fs::path path = root / fmt::format("step-{}.{}-{}", step, word, number);
    if (!facts_of(path)) return path;
  }
}

std::string committed_text(std::string_view manifest_text) {
  return fmt::format("{} {} xxh3-128 {}\n", kManifestFile, manifest_text.size(),
                     to_hex(hash_of(std::as_bytes(std::span(manifest_text)))));
}

bool has_mark(const fs::path& folder) { return facts_of(folder / kCommittedFile).has_value(); }

Manifest read_committed(const fs::path& folder) {
  if (!facts_of(folder))
    throw Error(ExitCode::checkpoint,
                fmt::format("there is no checkpoint {}{}", folder.string(), hub_advice(folder)));
  if (!has_mark(folder))
    throw Error(ExitCode::checkpoint, fmt::format("{} is not a committed checkpoint: it has no {}",
                                                  folder.string(), kCommittedFile));
  const std::string mark = read_text(folder / kCommittedFile, kMaxMarkBytes);
  const fs::path path = folder / kManifestFile;
  const std::string text = read_text(path, kMaxManifestBytes);
  const std::string expected = committed_text(text);
  if (mark != expected)
    throw Error(ExitCode::checkpoint,
                fmt::format("{} is damaged: {} says \"{}\", but the manifest is \"{}\"", folder.string(),
                            kCommittedFile, printable(mark.substr(0, mark.find('\n')), 200),
                            expected.substr(0, expected.size() - 1)));
  Manifest manifest = parse_manifest(text, path.string());
  const auto name = parse_folder_name(folder.filename().string());
  if (name && name->step != manifest.step)
    throw Error(ExitCode::checkpoint,
                fmt::format("{} contains step {}, not the step in its name", folder.string(), manifest.step));
  return manifest;
}

std::vector<std::pair<FolderName, fs::path>> named_folders(const fs::path& root) {
  std::vector<std::pair<FolderName, fs::path>> folders;
  for (const fs::path& path : paths_in(root)) {
    const auto name = parse_folder_name(path.filename().string());
    const auto facts = name ? facts_of(path) : std::nullopt;
    std::error_code ignored;
    if (facts && (S_ISDIR(facts->st_mode) || fs::is_directory(path, ignored)))  // through a link
      folders.emplace_back(*name, path);
  }
  std::sort(folders.begin(), folders.end(), [](const auto& a, const auto& b) {
    const auto rank = [](const auto& item) {  // a replaced checkpoint with a larger K is newer
      return std::tuple(-item.first.step, item.first.role, -item.first.number, item.second);
    };
    return rank(a) < rank(b);
  });
  return folders;
}

void check_sizes(const fs::path& folder, const Manifest& manifest) {
  for (const Shard& shard : manifest.shards) {
    const fs::path path = folder / shard.file;
    const auto facts = facts_of(path);
    if (!facts || !S_ISREG(facts->st_mode))
      throw Error(ExitCode::checkpoint,
                  fmt::format("{} is {}", path.string(), facts ? "not a regular file" : "missing"));
    check_size(path, facts->st_size, shard.bytes);
  }
}

void check_size(const fs::path& shard, std::int64_t bytes, std::int64_t expected) {
  if (bytes != expected)
    throw Error(ExitCode::checkpoint,
                fmt::format("{} has {} bytes, but the manifest says {}", shard.string(), bytes, expected));
}

std::string chunk_problem(const fs::path& file, std::int64_t chunk, std::int64_t bytes,
                          const ChunkHash& found, const ChunkHash& expected) {
  return fmt::format("{} is damaged: chunk {} (bytes {} to {}) has the hash {}, but the manifest says {}",
                     file.string(), chunk, chunk * kChunkBytes, chunk * kChunkBytes + bytes, to_hex(found),
                     to_hex(expected));
}

}  // namespace rondo::checkpoint
