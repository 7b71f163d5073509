// A file of lines or records of a run that only grows, on a disk that may fail for a while. A kill at any
// moment cuts short at most the last record.
//
// Errors: FileError of FileUse::run, naming the path. Not thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace rondo {

// Owns one file descriptor. Each append is one write(2). A kill can cut that short where it crosses a page of
// the file, so the last record may be torn; a write that the disk cuts short is taken back.
class AppendFile {
 public:
  static constexpr std::int64_t kMostKept = 64 << 10;  // bytes: some 200 steps of metrics
  static constexpr std::int64_t kRecordsKept = 16;     // whatever their size

  // Created where missing; a link in its place is an error.
  explicit AppendFile(std::filesystem::path path);
  ~AppendFile();
  AppendFile(AppendFile&& other) noexcept;
  AppendFile& operator=(AppendFile&&) = delete;

  // Lets go of what is behind the first `bytes`.
  void cut(std::int64_t bytes);

  // Where the disk fails, the record waits in memory for the next call, and the log says so once.
  void append(std::string_view record);
  // Why nothing can be written, once more than kMostKept bytes and kRecordsKept records wait; "": all is
  // well, or may yet be.
  std::string trouble() const;

  const std::filesystem::path& path() const { return path_; }

 private:
  bool write_kept();

  std::filesystem::path path_;
  int fd_;
  std::string kept_;  // what waits for the disk
  std::int64_t kept_records_ = 0;
  int error_number_ = 0;  // why it waits
};

}  // namespace rondo
