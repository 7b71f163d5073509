// A file descriptor, and system calls on files and folders. Calls retry until they are complete and
// report the errors of file_error.h.
//
// Offsets and sizes are in bytes. Everything throws FileError unless stated otherwise. Reads and
// writes at offsets are thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "support/files/file_error.h"

namespace rondo {

inline constexpr int kFileMode = 0666;  // of new files, before the umask

class File {
 public:
  // Opens for reading. Throws for anything but a regular file, and for a symbolic link in a
  // checkpoint.
  static File open(const std::filesystem::path& path, FileUse use);
  // Creates an empty file and replaces any file or link with that name. Never writes through a
  // link. Errors name `shown` if it is set, else `path`.
  static File create(const std::filesystem::path& path, FileUse use, const std::filesystem::path& shown = {});
  ~File();
  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;

  int descriptor() const { return fd_; }
  std::int64_t bytes() const;

  // Reads up to out.size() bytes at `offset`. Fewer bytes mean the end of the file.
  std::size_t read_some_at(std::int64_t offset, std::span<std::byte> out) const;
  // Fills `out`. Throws Error if the file ends before.
  void read_at(std::int64_t offset, std::span<std::byte> out) const;
  // Drops the kernel's cached pages of the file, so that the next read is from disk.
  void drop_cache() const;

  // Allocates the disk space, if the file system can. A full disk is then detected before the first
  // byte is written.
  void reserve(std::int64_t bytes);
  void write_at(std::int64_t offset, std::span<const std::byte> bytes);
  // Starts writing these bytes to disk, so that `sync` waits less.
  void start_writeback(std::int64_t offset, std::int64_t bytes);
  void resize(std::int64_t bytes);
  void sync();
  // Closes the descriptor and reports errors that network file systems report only on close. The
  // destructor ignores them.
  void close();

 private:
  File(int fd, std::filesystem::path path, FileUse use) : fd_(fd), path_(std::move(path)), use_(use) {}
  int fd_ = -1;
  std::filesystem::path path_;
  FileUse use_;
};

// Reads a whole file of at most `max_bytes` bytes. A larger file is an Error.
std::string read_file(const std::filesystem::path& path, std::int64_t max_bytes, FileUse use);

// Returns when a file was last written, in seconds since the epoch; 0 if it cannot be found.
double modified_s(const std::filesystem::path& path);

// Returns the folder of a path: "." for a bare name.
std::filesystem::path folder_of(const std::filesystem::path& path);

// Makes the names in a folder durable. Succeeds on file systems that cannot sync folders.
void sync_folder(const std::filesystem::path& folder, FileUse use);
void rename_file(const std::filesystem::path& from, const std::filesystem::path& to, FileUse use);
void remove_file(const std::filesystem::path& path, FileUse use);  // succeeds if there is none

}  // namespace rondo
