// The lines of a file that this program or another one has written. A line has at most
// kMaxRecordBytes bytes, so that memory is bounded for any file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "support/files/file.h"

namespace rondo {

inline constexpr std::int64_t kMaxRecordBytes = 16 << 20;

class FileLines {
 public:
  // Opens the file as File::open does. `offset`: where the first line begins.
  FileLines(const std::filesystem::path& path, FileUse use, std::int64_t offset = 0);

  std::int64_t bytes() const { return file_.bytes(); }
  // Returns the next line without its newline; nullopt at the end. Valid until the next call.
  // Throws FileError, and Error of the use for a line that is too long.
  std::optional<std::string_view> next();
  // Whether the last line ended with a newline.
  bool is_complete() const { return is_complete_; }

 private:
  File file_;
  std::string name_;
  FileUse use_;
  std::int64_t offset_;    // of the next read
  std::string text_;       // bytes that were read
  std::size_t begin_ = 0;  // of the next line in text_
  bool is_complete_ = true;
};

}  // namespace rondo
