// File operations of a save, with retries, in addition to support/files.
//
// All errors are FileErrors of FileUse::checkpoint. `with_retries` repeats the transient ones
// (may_pass), which network file systems return.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "support/files/file.h"

namespace rondo::checkpoint {

inline constexpr FileUse kUse = FileUse::checkpoint;

// Runs `action`, and repeats it up to 5 times, after 0.1, 0.2, ... 1.6 s, while it throws a
// transient FileError. REQUIRES: `action` starts from the beginning each time. After a failed
// fsync, a second fsync says nothing about the earlier bytes.
void with_retries(const std::function<void()>& action);

// Returns lstat's result for a path; nullopt if nothing has this name. Retried. A failing file
// system is a FileError, never nullopt.
std::optional<struct stat> facts_of(const std::filesystem::path& path);
// Returns the contents of a folder, unordered; empty if it does not exist. Retried.
std::vector<std::filesystem::path> paths_in(const std::filesystem::path& folder);

void make_folder(const std::filesystem::path& folder);  // with its parents; it may exist
void remove_tree(const std::filesystem::path& folder);  // it may be missing; follows no links
// Renames a path. Retried. REQUIRES: nothing at `to` is needed. Durable after `sync_folder` of
// the parent.
void rename_path(const std::filesystem::path& from, const std::filesystem::path& to);

// replace_file and read_file, retried.
void write_durably(const std::filesystem::path& file, std::string_view text);
std::string read_text(const std::filesystem::path& file, std::int64_t limit);

}  // namespace rondo::checkpoint
