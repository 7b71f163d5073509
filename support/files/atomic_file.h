// A file that has its new contents whole or not at all, whatever fails or is killed: it is written beside its
// place as
// ".NAME.part", synced, renamed, and the folder synced.
//
// Errors: FileError, naming the path. Not thread-safe.
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
  // `suffix`: one of the writer's own where several may write one path at once. What a killed process left
  // under the name of the temporary file, or somebody put there, goes away.
  AtomicFile(std::filesystem::path path, FileUse use, std::string_view suffix = "part");
  ~AtomicFile();  // without commit(): the temporary file is removed
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void reserve(std::int64_t bytes) { file_.reserve(bytes); }
  void write_at(std::int64_t offset, std::span<const std::byte> bytes);

  // The file ends behind the last byte that was written, and gets its name. Not `durable`: nothing is synced,
  // so a power cut may leave less. Nothing may follow.
  void commit(bool durable = true);

 private:
  std::filesystem::path path_, pending_;
  FileUse use_;
  File file_;
  std::int64_t end_ = 0;  // behind the last byte that was written
  bool committed_ = false;
};

// A text as the whole of a file.
void replace_file(const std::filesystem::path& path, std::string_view text, FileUse use);

}  // namespace rondo
