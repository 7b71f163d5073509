#include "support/files/file_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "support/log.h"

namespace rondo {

FileLines::FileLines(const std::filesystem::path& path, FileUse use, std::int64_t offset)
    : file_(File::open(path, use)), name_(path.string()), use_(use), offset_(offset) {
  constexpr std::int64_t kLargeBytes = 256 << 20;  // takes seconds
  if (const std::int64_t bytes = file_.bytes() - offset; bytes > kLargeBytes)
    log_info(fmt::format("reading {}: {} MiB", name_, bytes >> 20));
}

std::optional<std::string_view> FileLines::next() {
  constexpr std::size_t kBlock = 1 << 16;
  std::size_t end = text_.find('\n', begin_);
  while (end == text_.npos) {
    text_.erase(0, std::exchange(begin_, 0));
    const std::size_t searched = text_.size();
    if (std::ssize(text_) > kMaxRecordBytes)
      throw Error(exit_code_of(use_),
                  fmt::format("{}: a line has more than {} bytes", name_, kMaxRecordBytes));
    text_.resize(searched + std::max(kBlock, searched));
    const std::size_t count =
        file_.read_some_at(offset_, std::as_writable_bytes(std::span(text_).subspan(searched)));
    text_.resize(searched + count);
    offset_ += static_cast<std::int64_t>(count);
    end = text_.find('\n', searched);
    if (count == 0) break;
  }
  is_complete_ = end != text_.npos;
  if (!is_complete_ && text_.empty()) return std::nullopt;
  const std::string_view line = std::string_view(text_).substr(begin_, end - begin_);
  begin_ = is_complete_ ? end + 1 : text_.size();
  return line;
}

}  // namespace rondo
