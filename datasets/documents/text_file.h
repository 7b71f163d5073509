// Reads a text file that may be compressed, by its first bytes or the suffix of its name: gzip
// (*.gz, RFC 1952, by zlib), Zstandard (*.zst, *.zstd, RFC 8878, by libzstd). Consecutive members
// or frames are one text; zeros behind a member of gzip are padding. Any other file is read as it
// is.
//
// Offsets and sizes are bytes of text. A compressed file is decompressed from its beginning up to
// the requested offset, so only ascending reads are fast. Memory is some hundred KiB; for Zstandard
// its window, up to 2 GiB. Used by one thread at a time. Throws Error(data) naming the file when
// it cannot be opened, is damaged, ends early, or the program was built without the library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "support/files/input_file.h"

namespace rondo {

// Returns "a.jsonl" for "a.jsonl.gz" and "a.jsonl.GZ", and other names unchanged.
std::string_view without_compression(std::string_view name);

// An intact file that cannot be decompressed here.
struct UnreadableFrame : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// One compression format. It sees bytes, not files.
class Decompressor {
 public:
  virtual ~Decompressor() = default;
  struct Progress {
    std::size_t consumed = 0, produced = 0;
  };
  // Decompresses from `in` to `out` until either is exhausted. Throws std::runtime_error with the
  // reason when the bytes are damaged, and UnreadableFrame.
  virtual Progress run(std::span<const std::byte> in, std::span<std::byte> out) = 0;
  // Returns true when the file may end after the bytes so far.
  virtual bool may_end() const = 0;
};
// Returns whether a file that begins with `head` is compressed.
bool is_gzip(std::string_view head);
bool is_zstd(std::string_view head);
// Returns the decompressor for a file that begins with `head`; nullptr for an uncompressed file. A
// name that promises a format decides if the head is of neither.
std::unique_ptr<Decompressor> make_decompressor(const std::string& path, std::string_view head);

class TextFile {
 public:
  // `compressed`: what is known of it; saves a read of the head where it is false.
  explicit TextFile(std::string path, std::optional<bool> compressed = std::nullopt);

  bool compressed() const { return decompressor_ != nullptr; }
  std::int64_t bytes();  // reads a compressed file to its end, once
  // Reads text at `offset`. Returns fewer bytes than requested at the end of the text.
  std::size_t read_some_at(std::int64_t offset, std::span<std::byte> out);

 private:
  std::string head() const;  // four bytes
  std::unique_ptr<Decompressor> new_decompressor() const;
  void rewind();
  std::size_t read_next(std::span<std::byte> out);
  [[noreturn]] void fail(const std::string& what) const;

  std::string path_;
  InputFile file_;
  std::unique_ptr<Decompressor> decompressor_;  // nullptr: an uncompressed file
  std::int64_t text_at_ = 0, file_at_ = 0;      // positions of the next byte of text and of the file
  std::vector<std::byte> stored_;               // bytes of the file before file_at_
  std::span<const std::byte> unread_;           // the part of stored_ that is not consumed
  std::optional<std::int64_t> bytes_;
};

}  // namespace rondo
