// Lets one process at a time write to a folder, by any path or link: an exclusive flock(2) on its
// file ".lock", which is never removed. It is a regular file open for writing, because NFS and
// Lustre keep locks on folders local to a node. The kernel releases the lock with the process; the
// server of a dead node releases it after a minute or two. On file systems without locks (Lustre
// without `-o flock`, some NFS) nothing is protected, and a warning reports it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "support/files/file_error.h"

namespace rondo {

class FolderLock {
 public:
  static constexpr const char* kFile = ".lock";

  // Takes the lock. Returns nullopt if this or another process holds it. Throws FileError if the
  // folder cannot be written.
  static std::optional<FolderLock> take(const std::filesystem::path& folder, FileUse use);
  // Like take(), but waits two minutes for a holder on another node. Waits one second for a holder
  // on this node, which may be about to end.
  static std::optional<FolderLock> take_patiently(const std::filesystem::path& folder, FileUse use);
  // Returns the holder if it is on another node, and the remedy if it is dead: ": process 12 on n3;
  // ...". Otherwise returns "".
  static std::string holder_elsewhere(const std::filesystem::path& folder);

  // Removes a folder that contains nothing but the lock file. The caller holds the lock.
  static void remove_folder(const std::filesystem::path& folder);

  ~FolderLock();
  FolderLock(FolderLock&& other) noexcept;
  FolderLock& operator=(FolderLock&& other) noexcept;

 private:
  explicit FolderLock(int fd) : fd_(fd) {}
  int fd_;
};

}  // namespace rondo
