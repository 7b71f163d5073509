// An append-only file of lines or records, on a disk that may fail for a while. A kill at any time
// tears at most the last record.
//
// Errors: FileError of FileUse::run, naming the path. Not thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace rondo {

// Owns one file descriptor. Each append is one write(2). A kill can cut the write short at a page
// boundary, so the last record may be torn. A write that the disk cuts short is undone.
class AppendFile {
 public:
  static constexpr std::int64_t kMaxKept = 64 << 10;  // bytes: about 200 steps of metrics
  static constexpr std::int64_t kRecordsKept = 16;    // of any size

  // Creates the file if it is missing. Throws if the path is a symbolic link.
  explicit AppendFile(std::filesystem::path path);
  ~AppendFile();
  AppendFile(AppendFile&& other) noexcept;
  AppendFile& operator=(AppendFile&&) = delete;

  // Truncates the file to its first `bytes` bytes.
  void cut(std::int64_t bytes);

  // Appends a record. If the disk fails, the record is kept in memory for the next call, and the
  // log reports it once.
  void append(std::string_view record);
  // Returns why nothing can be written, once more than kMaxKept bytes and kRecordsKept records are
  // pending. Otherwise returns "".
  std::string trouble() const;

  const std::filesystem::path& path() const { return path_; }

 private:
  bool write_pending();

  std::filesystem::path path_;
  int fd_;
  std::string pending_;  // not written yet
  std::int64_t pending_records_ = 0;
  int error_number_ = 0;  // of the failed write
};

}  // namespace rondo
