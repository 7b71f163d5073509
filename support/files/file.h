// A file's descriptor and the system calls on files and folders: whole, and with the errors of file_error.h.
//
// Offsets and sizes are bytes. Everything throws FileError unless it says otherwise. Reads and writes at
// offsets may come from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "support/files/file_error.h"

namespace rondo {

inline constexpr int kFileMode = 0666;  // of new files; the umask decides

class File {
 public:
  // To read. Anything but a regular file is an error, and so is a link in the place of a file of a
  // checkpoint.
  static File open(const std::filesystem::path& path, FileUse use);
  // A new, empty file in place of whatever file or link has the name; nothing is written through a link.
  // Errors name `shown`, or else `path`.
  static File create(const std::filesystem::path& path, FileUse use, const std::filesystem::path& shown = {});
  ~File();
  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;

  int descriptor() const { return fd_; }
  std::int64_t bytes() const;

  // The bytes at `offset`, as many as the file has; fewer than asked for are the end of it.
  std::size_t read_some_at(std::int64_t offset, std::span<std::byte> out) const;
  // Fills `out`; a file that ends before that is an Error too.
  void read_at(std::int64_t offset, std::span<std::byte> out) const;
  // Asks the kernel to forget its copy of the file, so that the next read is one of the disk.
  void drop_cache() const;

  // Takes the disk space now, where the file system can: a full disk says so before the first byte.
  void reserve(std::int64_t bytes);
  void write_at(std::int64_t offset, std::span<const std::byte> bytes);
  // Lets the disk begin with these bytes, so that `sync` has less to wait for.
  void start_writeback(std::int64_t offset, std::int64_t bytes);
  void resize(std::int64_t bytes);
  void sync();
  // The destructor closes too, but cannot say what a network file system says only then.
  void close();

 private:
  File(int fd, std::filesystem::path path, FileUse use) : fd_(fd), path_(std::move(path)), use_(use) {}
  int fd_ = -1;
  std::filesystem::path path_;
  FileUse use_;
};

// The whole of a file of at most `most` bytes; a larger one is an Error.
std::string read_file(const std::filesystem::path& path, std::int64_t most, FileUse use);

// The folder that a file lies in: "." for a bare name.
std::filesystem::path folder_of(const std::filesystem::path& path);

// Makes durable which names a folder holds. Fine on file systems whose folders need none.
void sync_folder(const std::filesystem::path& folder, FileUse use);
void rename_file(const std::filesystem::path& from, const std::filesystem::path& to, FileUse use);
void remove_file(const std::filesystem::path& path, FileUse use);  // fine if it is not there

}  // namespace rondo
