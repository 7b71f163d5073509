// The file system calls that a checkpoint stands on: whole, retried, durable, with errors that a user can act
// on.
//
// Errors: FileError, exit code `resources` where space, quota or a limit ran out, else `checkpoint`. EIO,
// ESTALE and ETIMEDOUT, which network file systems give in passing, are retried by `with_retries`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "support/error.h"

namespace rondo::checkpoint {

class FileError : public Error {
 public:
  FileError(std::string_view verb, const std::filesystem::path& path, int error_number);
  int error_number() const { return error_number_; }

 private:
  int error_number_;
};

// Runs `action` again, up to 5 times, after 0.1, 0.2, ... 1.6 s, while it throws a FileError that may pass.
// `action` must start from nothing each time: after a failed fsync a second one tells nothing about the
// bytes of before.
void with_retries(const std::function<void()>& action);

class File {
 public:
  // A regular file; anything else (a pipe, a link) is an error.
  static File open(const std::filesystem::path& path);
  // A new, empty file in place of whatever file has the name.
  static File create(const std::filesystem::path& path);
  ~File();
  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;

  std::int64_t bytes() const;
  // Takes the disk space now, where the file system can.
  void reserve(std::int64_t bytes);
  void write_at(std::int64_t offset, std::span<const std::byte> bytes);
  // Lets the disk begin with these bytes, so that `sync` has less to wait for.
  void start_writeback(std::int64_t offset, std::int64_t bytes);
  void sync();
  // Fills `out`, or throws.
  void read_at(std::int64_t offset, std::span<std::byte> out) const;
  // Asks the kernel to forget its copy of the file, so that the next read is one of the disk.
  void drop_cache() const;

 private:
  File(int fd, std::filesystem::path path) : fd_(fd), path_(std::move(path)) {}
  int fd_ = -1;
  std::filesystem::path path_;
};

void make_folder(const std::filesystem::path& folder);  // with its parents; fine if it is there
void sync_folder(const std::filesystem::path& folder);
// REQUIRES: nothing that may not be lost has the name `to`. Durable after `sync_folder` of the parent.
void rename_path(const std::filesystem::path& from, const std::filesystem::path& to);
void remove_file(const std::filesystem::path& file);    // fine if it is not there
void remove_tree(const std::filesystem::path& folder);  // fine if it is not there; follows no link

// The file has this text or, after an error or a power cut, what it was before; retried.
void write_durably(const std::filesystem::path& file, std::string_view text);
// Throws where the file is larger than `limit`.
std::string read_text(const std::filesystem::path& file, std::int64_t limit);

}  // namespace rondo::checkpoint
