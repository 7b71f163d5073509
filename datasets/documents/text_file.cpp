// A compressed file is a stream: what is asked for further on is reached by making text and forgetting it,
// what lies before by beginning again. Its size is known only at its end, and kept. Progress without either a
// byte taken or a byte made is the end of the input, or damage.
#include "datasets/documents/text_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "support/error.h"

namespace rondo {
namespace {

constexpr std::size_t kStoredBytes = std::size_t{1} << 18;

}  // namespace

std::string_view without_compression(std::string_view name) {
  for (const std::string_view suffix : {".gz", ".zst"})
    if (name.ends_with(suffix)) return name.substr(0, name.size() - suffix.size());
  return name;
}

TextFile::TextFile(std::string path)
    : path_(std::move(path)), file_(path_, FileUse::data), decompressor_(make_decompressor(path_)) {
  if (!decompressor_) bytes_ = file_.size();
}

void TextFile::fail(const std::string& what) const {
  throw Error(ExitCode::data, fmt::format("{}: {}. Fetch or compress the file again", path_, what));
}

void TextFile::rewind() {
  decompressor_ = make_decompressor(path_);
  text_at_ = file_at_ = 0;
  left_ = {};
}

std::size_t TextFile::read_next(std::span<std::byte> out) {
  std::size_t made = 0;
  while (made < out.size()) {
    if (left_.empty()) {
      stored_.resize(kStoredBytes);
      left_ = std::span(stored_).first(file_.read_some_at(file_at_, stored_));
      file_at_ += std::ssize(left_);
    }
    if (left_.empty() && decompressor_->may_end()) break;
    Decompressor::Progress step;
    try {
      step = decompressor_->run(left_, out.subspan(made));
    } catch (const std::runtime_error& wrong) {
      fail(fmt::format("is damaged before byte {}: {}", file_at_, wrong.what()));
    }
    if (step.taken == 0 && step.made == 0) {
      if (left_.empty()) fail("ends early");
      fail(fmt::format("is damaged before byte {}", file_at_));
    }
    left_ = left_.subspan(step.taken);
    made += step.made;
  }
  text_at_ += static_cast<std::int64_t>(made);
  return made;
}

std::size_t TextFile::read_some_at(std::int64_t offset, std::span<std::byte> out) {
  if (!decompressor_) return file_.read_some_at(offset, out);
  if (offset < text_at_) rewind();
  std::vector<std::byte> passed_over;
  while (text_at_ < offset) {
    passed_over.resize(static_cast<std::size_t>(std::min<std::int64_t>(offset - text_at_, kStoredBytes)));
    if (read_next(passed_over) < passed_over.size()) return 0;
  }
  return read_next(out);
}

std::int64_t TextFile::bytes() {
  std::vector<std::byte> passed_over(bytes_ ? 0 : kStoredBytes);
  while (!bytes_)
    if (read_next(passed_over) < passed_over.size()) bytes_ = text_at_;
  return *bytes_;
}

}  // namespace rondo
