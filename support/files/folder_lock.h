// One writer of a folder at a time, whatever path or link leads there: an exclusive flock(2) on the folder
// itself. The kernel drops it with the process, so there is nothing to clean up. File systems without locks
// (some NFS) go unprotected.
#pragma once

#include <filesystem>
#include <optional>

#include "support/files/file_error.h"

namespace rondo {

class FolderLock {
 public:
  // nullopt: somebody else holds it, in this process or another. Throws FileError where the folder cannot be
  // opened.
  static std::optional<FolderLock> take(const std::filesystem::path& folder, FileUse use);
  ~FolderLock();
  FolderLock(FolderLock&& other) noexcept;
  FolderLock& operator=(FolderLock&& other) noexcept;

 private:
  explicit FolderLock(int fd) : fd_(fd) {}
  int fd_;
};

}  // namespace rondo
