// A file of lines or records of a run that only grows. A kill at any moment cuts short at most the last
// record.
//
// Errors: FileError of FileUse::run, naming the path. Not thread-safe.
#pragma once

#include <filesystem>
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

}  // namespace rondo
