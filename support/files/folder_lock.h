// One writer of a folder at a time, whatever path or link leads there: an exclusive flock(2) on a file of it,
// ".lock", which stays. A regular file that is open for writing, since NFS and Lustre keep locks on folders
// to the node that takes them. The kernel drops it with the process; the server of a node that is gone does
// so after a minute or two. File systems without locks (Lustre without `-o flock`, some NFS) go unprotected,
// and a warning says so.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "support/files/file_error.h"

namespace rondo {

class FolderLock {
 public:
  static constexpr const char* kFile = ".lock";

  // nullopt: somebody else holds it, in this process or another. Throws FileError where the folder cannot be
  // written.
  static std::optional<FolderLock> take(const std::filesystem::path& folder, FileUse use);
  // The same, but waits two minutes for a holder on another node, and a second for one on this node, which
  // may be ending.
  static std::optional<FolderLock> take_patiently(const std::filesystem::path& folder, FileUse use);
  // Who holds it, where that is no process of this node, and what to do if it is gone: ": process 12 on n3
  // ...".
  static std::string holder_elsewhere(const std::filesystem::path& folder);

  // Removes a folder that holds nothing else than the lock, which its caller has.
  static void remove_folder(const std::filesystem::path& folder);

  ~FolderLock();
  FolderLock(FolderLock&& other) noexcept;
  FolderLock& operator=(FolderLock&& other) noexcept;

 private:
  explicit FolderLock(int fd) : fd_(fd) {}
  int fd_;
};

}  // namespace rondo
