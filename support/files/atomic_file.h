// A file that gets its new contents completely or not at all, in spite of failures and kills. It is
// written to ".NAME.part" in the same folder, synced and renamed. Then the folder is synced.
//
// Errors: FileError, naming the path; Error for a device, pipe or socket, which is not replaced.
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

#include "support/files/file.h"

namespace rondo {

class AtomicFile {
 public:
  // Creates the temporary file and replaces any file of its name. Several concurrent writers of one
  // path need different suffixes.
  AtomicFile(std::filesystem::path path, FileUse use, std::string_view suffix = "part");
  ~AtomicFile();  // removes the temporary file unless committed
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void reserve(std::int64_t bytes) { file_.reserve(bytes); }
  void write_at(std::int64_t offset, std::span<const std::byte> bytes);

  // Truncates the file after the last written byte and renames it to its path. With `durable` false
  // nothing is synced, so a power loss may lose data. No call may follow.
  void commit(bool durable = true);

 private:
  std::filesystem::path path_, pending_;
  FileUse use_;
  File file_;
  std::int64_t end_ = 0;  // after the last written byte
  bool committed_ = false;
};

// Replaces a file by a text.
void replace_file(const std::filesystem::path& path, std::string_view text, FileUse use);

}  // namespace rondo
