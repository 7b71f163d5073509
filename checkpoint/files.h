// What a save does to files and folders beyond support/files: with retries, and folders as a whole.
//
// Errors: FileError of FileUse::checkpoint. Those that may_pass, as network file systems give them, are
// retried by `with_retries`.
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

// Runs `action` again, up to 5 times, after 0.1, 0.2, ... 1.6 s, while it throws a FileError that may pass.
// `action` must start from nothing each time: after a failed fsync a second one tells nothing about the
// bytes of before.
void with_retries(const std::function<void()>& action);

// Of what has this name, a link itself; nullopt: nothing has it. Retried: that the file system does not tell
// (FileError) never reads as absent.
std::optional<struct stat> facts_of(const std::filesystem::path& path);
// What lies in a folder, in no order; nothing where there is none. Retried.
std::vector<std::filesystem::path> paths_in(const std::filesystem::path& folder);

void make_folder(const std::filesystem::path& folder);  // with its parents; fine if it is there
void remove_tree(const std::filesystem::path& folder);  // fine if it is not there; follows no link
// Retried. REQUIRES: nothing that may not be lost has the name `to`. Durable after `sync_folder` of the
// parent.
void rename_path(const std::filesystem::path& from, const std::filesystem::path& to);

// replace_file and read_file, retried.
void write_durably(const std::filesystem::path& file, std::string_view text);
std::string read_text(const std::filesystem::path& file, std::int64_t limit);

}  // namespace rondo::checkpoint
