// The order of the steps makes a save safe: contents are durable before the rename, and the rename
// before the mark. The manifest is parsed again before the rename, since a checkpoint must be
// readable. Rank 0 checks the sizes of all shards, which detects a file system that is not shared.
// If the mark cannot be written, the folder gets its temporary name back, so that a failed save is
// swept and does not fill the disk.
#include "checkpoint/save.h"

#include <fmt/format.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "checkpoint/committed.h"
#include "checkpoint/files.h"
#include "support/error.h"
#include "support/text/size_text.h"

namespace rondo::checkpoint {
namespace {

namespace fs = std::filesystem;

void remove_leftover(const fs::path& folder) {
  with_retries([&] { remove_tree(folder); });
}

// Frees the name of the step without losing a checkpoint that is committed under it.
void make_way(const fs::path& root, const fs::path& target, std::int64_t step) {
  if (!facts_of(target)) return;
  if (has_mark(target)) {
    rename_path(target, free_name(root, step, "replaced"));
  } else {
    const fs::path trash = free_name(root, step, "trash");
    rename_path(target, trash);
    remove_leftover(trash);
  }
  with_retries([&] { sync_folder(root, kUse); });
}

}  // namespace

FolderLock lock_root(const fs::path& root) {
  const auto refuse = [&](const std::string& why) {
    return Error(ExitCode::environment, fmt::format("the folder of checkpoints {} {}", root.string(), why));
  };
  try {
    make_folder(root);
    if (::access(root.c_str(), W_OK | X_OK) != 0) throw FileError("write", root, errno, kUse);
    if (auto lock = FolderLock::take_patiently(root, kUse)) return std::move(*lock);
  } catch (const FileError& error) {
    if (error.code() == ExitCode::resources) throw;
    throw refuse(
        fmt::format("cannot be written: {}; check its permissions and how it is mounted, or choose "
                    "another job.dump_folder",
                    std::strerror(error.error_number())));
  }
  throw refuse("is being written by another run that is still alive" + FolderLock::holder_elsewhere(root) +
               "; choose another job.dump_folder, or wait");
}

fs::path begin_save(const fs::path& root, std::int64_t step, std::string_view run, int attempt) {
  RONDO_ASSERT(step >= 0 && !run.empty() &&
                   std::all_of(run.begin(), run.end(),
                               [](unsigned char c) { return std::isalnum(c) || c == '-' || c == '_'; }),
               fmt::format("step {}, run \"{}\"", step, run));
  fs::path temp = root / fmt::format("step-{}.tmp-{}-{}", step, run, attempt);
  with_retries([&] {
    make_folder(root);
    remove_tree(temp);
    make_folder(temp);
    sync_folder(root, kUse);
  });
  return temp;
}

void check_space(const fs::path& folder, std::int64_t bytes, std::int64_t files) {
  struct statvfs disk {};
  with_retries([&] {
    if (::statvfs(folder.c_str(), &disk) != 0) throw FileError("read the free space of", folder, errno, kUse);
  });
  constexpr double kMargin = 1.05;
  const double free_bytes = static_cast<double>(disk.f_bavail) * static_cast<double>(disk.f_frsize);
  if (free_bytes < kMargin * static_cast<double>(bytes))
    throw Error(
        ExitCode::resources,
        fmt::format("{} has {} free, but a checkpoint needs {} and 5 % more; free space, "
                    "lower checkpoint.keep_latest_k, or choose another folder",
                    folder.string(), size_text(static_cast<std::int64_t>(free_bytes)), size_text(bytes)));
  const bool counts_files = disk.f_files != 0;
  if (counts_files && static_cast<double>(disk.f_favail) < kMargin * static_cast<double>(files))
    throw Error(ExitCode::resources,
                fmt::format("the file system of {} can hold {} more files, but a checkpoint needs {} and 5 % "
                            "more; remove files or choose another folder",
                            folder.string(), disk.f_favail, files));
}

fs::path commit(const fs::path& root, const fs::path& temp, const Manifest& manifest,
                std::string_view suffix) {
  const std::string text = to_text(manifest);
  if (std::ssize(text) > kMaxManifestBytes)
    throw Error(ExitCode::checkpoint,
                fmt::format("the manifest of {} would have {} bytes, more than the {} that can be read",
                            temp.string(), text.size(), kMaxManifestBytes));
  parse_manifest(text, (temp / kManifestFile).string());  // the manifest must be readable
  // Detects a rank that wrote to another folder because the file system is not shared.
  check_sizes(temp, manifest);
  write_durably(temp / kManifestFile, text);  // ends with the fsync of `temp`
  fs::path target = root / fmt::format("step-{}{}", manifest.step, suffix);
  make_way(root, target, manifest.step);
  rename_path(temp, target);
  try {
    with_retries([&] { sync_folder(root, kUse); });
    write_durably(target / kCommittedFile, committed_text(text));
  } catch (const Error&) {
    // Restores the name that `abandon` and `sweep_leftovers` clear, so that a failed save does not
    // fill the disk. If the mark exists already, the checkpoint is complete, and only its
    // durability is uncertain.
    if (!has_mark(target)) ::rename(target.c_str(), temp.c_str());
    throw;
  }
  return target;
}

void abandon(const fs::path& temp) noexcept {
  try {
    const auto name = parse_folder_name(temp.filename().string());
    if (name && name->role == FolderName::Role::temp) remove_tree(temp);
  } catch (const std::exception&) {
    // The save has already failed, for a reason that the caller knows. `sweep_leftovers`
    // tries again.
  }
}

std::vector<fs::path> sweep_leftovers(const fs::path& root, const std::stop_token& stop) {
  std::vector<fs::path> swept;
  for (const auto& [name, folder] : named_folders(root)) {
    if (stop.stop_requested()) break;
    const auto facts = facts_of(folder);
    if (!name.is_leftover() || !facts || !S_ISDIR(facts->st_mode)) continue;
    remove_leftover(folder);
    swept.push_back(folder);
  }
  return swept;
}

std::optional<fs::path> set_aside_newer(const fs::path& root, std::int64_t step) {
  std::vector<fs::path> newer;
  for (const auto& [name, folder] : named_folders(root)) {
    if (name.step <= step || name.is_leftover()) continue;
    newer.push_back(folder);
    if (fs::path exported = folder.string() + "-hf"; facts_of(exported)) newer.push_back(std::move(exported));
  }
  if (newer.empty()) return std::nullopt;
  fs::path aside;
  for (int number = 1; aside.empty() || facts_of(aside); ++number)
    aside = root / ("abandoned-" + std::to_string(number));
  make_folder(aside);
  for (const fs::path& folder : newer) rename_path(folder, aside / folder.filename());
  sync_folder(aside, kUse);
  sync_folder(root, kUse);
  return aside;
}

}  // namespace rondo::checkpoint
