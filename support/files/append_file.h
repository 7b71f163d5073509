// A file of lines or records that only grows, and a file that is replaced whole. Both survive a kill at any
// moment: of the one at most the last record is cut short, the other is old or new.
//
// Errors: ExitCode::resources (disk full, quota, I/O error) or ExitCode::environment (permissions, wrong kind
// of file), naming the path. Not thread-safe.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace rondo {

// Owns one file descriptor. Each append is one write(2). A kill can cut that short where it crosses a page of
// the file, so the last record may be torn; a write that the disk cuts short is taken back before the error
// is thrown.
class AppendFile {
 public:
  explicit AppendFile(std::filesystem::path path);  // created where missing
  ~AppendFile();
  AppendFile(AppendFile&& other) noexcept;
  AppendFile& operator=(AppendFile&&) = delete;

  void append(std::string_view record);
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int fd_;
};

// Writes `.NAME` beside `path`, syncs it and renames it to `path`: readers see the old text or the new one.
void replace_file(const std::filesystem::path& path, std::string_view text);

// Keeps a block of the disk for a later `replace_file` of `path`, so that the reason of an end can be written
// on a disk that has run full. Best effort.
void reserve_file(const std::filesystem::path& path);

}  // namespace rondo
