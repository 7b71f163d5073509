// A compressed file is a stream. Later offsets are reached by decompressing and discarding text,
// earlier offsets by starting again. The size is known only at the end, and stored then. A step
// that neither consumes nor produces bytes means the end of the input, or damage.
#include "datasets/documents/text_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "datasets/documents/format.h"
#include "support/error.h"

namespace rondo {
namespace {

constexpr std::size_t kStoredBytes = std::size_t{1} << 18;

}  // namespace

std::string_view without_compression(std::string_view name) {
  for (const std::string_view suffix : {".gz", ".zst", ".zstd"})
    if (has_suffix(name, suffix)) return name.substr(0, name.size() - suffix.size());
  return name;
}

TextFile::TextFile(std::string path, std::optional<bool> compressed)
    : path_(std::move(path)), file_(path_, FileUse::data) {
  if (compressed.value_or(true)) decompressor_ = new_decompressor();
  if (!decompressor_) bytes_ = file_.size();
}

void TextFile::fail(const std::string& what) const {
  throw Error(ExitCode::data, fmt::format("{}: {}. Fetch or compress the file again", path_, what));
}

std::string TextFile::head() const {
  std::string head(4, '\0');
  head.resize(file_.read_some_at(0, std::as_writable_bytes(std::span(head))));
  return head;
}

std::unique_ptr<Decompressor> TextFile::new_decompressor() const { return make_decompressor(path_, head()); }

void TextFile::rewind() {
  decompressor_ = new_decompressor();
  text_at_ = file_at_ = 0;
  unread_ = {};
}

std::size_t TextFile::read_next(std::span<std::byte> out) {
  std::size_t bytes_read = 0;
  while (bytes_read < out.size()) {
    if (unread_.empty()) {
      stored_.resize(kStoredBytes);
      unread_ = std::span(stored_).first(file_.read_some_at(file_at_, stored_));
      file_at_ += std::ssize(unread_);
    }
    if (unread_.empty() && decompressor_->may_end()) break;
    Decompressor::Progress step;
    try {
      step = decompressor_->run(unread_, out.subspan(bytes_read));
    } catch (const UnreadableFrame& error) {
      fail(error.what());
    } catch (const std::runtime_error& error) {
      if (!is_gzip(head()) && !is_zstd(head()))
        throw Error(ExitCode::data,
                    fmt::format("{}: has the name of a compressed file, but does not begin like one. Rename "
                                "it if it is not compressed, or fetch it again",
                                path_));
      fail(fmt::format("is damaged before byte {}: {}", file_at_, error.what()));
    }
    if (step.consumed == 0 && step.produced == 0) {
      if (unread_.empty()) fail("ends early");
      fail(fmt::format("is damaged before byte {}", file_at_));
    }
    unread_ = unread_.subspan(step.consumed);
    bytes_read += step.produced;
  }
  text_at_ += static_cast<std::int64_t>(bytes_read);
  return bytes_read;
}

std::size_t TextFile::read_some_at(std::int64_t offset, std::span<std::byte> out) {
  if (!decompressor_) return file_.read_some_at(offset, out);
  if (offset < text_at_) rewind();
  std::vector<std::byte> discarded;
  while (text_at_ < offset) {
    discarded.resize(static_cast<std::size_t>(std::min<std::int64_t>(offset - text_at_, kStoredBytes)));
    if (read_next(discarded) < discarded.size()) return 0;
  }
  return read_next(out);
}

std::int64_t TextFile::bytes() {
  std::vector<std::byte> discarded(bytes_ ? 0 : kStoredBytes);
  while (!bytes_)
    if (read_next(discarded) < discarded.size()) bytes_ = text_at_;
  return *bytes_;
}

}  // namespace rondo
