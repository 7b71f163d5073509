// A file of text, which may be compressed; its name says so: *.gz (RFC 1952, by zlib), *.zst (RFC 8878, by
// libzstd). Members or frames that follow each other are one text. Any other file is read as it is.
//
// Offsets and sizes are bytes of text. A compressed file is decompressed from its beginning to wherever it is
// read, so it is fast forwards only; memory is some hundred KiB, for *.zst up to the 128 MiB of its window.
// Used by one thread at a time. Throws Error(data) naming the file where it cannot be opened, is damaged,
// ends early, or the program was built without the library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "support/files/input_file.h"

namespace rondo {

// "a.jsonl" of "a.jsonl.gz"; a name that says nothing of compression stays.
std::string_view without_compression(std::string_view name);
inline bool is_compressed(std::string_view name) { return without_compression(name).size() < name.size(); }

// One way of compression. Finds no file and no name.
class Decompressor {
 public:
  virtual ~Decompressor() = default;
  struct Progress {
    std::size_t taken = 0, made = 0;
  };
  // Takes compressed bytes and makes text, as far as both reach. Throws std::runtime_error saying what is
  // wrong with the bytes.
  virtual Progress run(std::span<const std::byte> in, std::span<std::byte> out) = 0;
  // Whether the bytes so far are whole: the file may end here.
  virtual bool may_end() const = 0;
};
// Of the name's suffix; nullptr where it has none.
std::unique_ptr<Decompressor> make_decompressor(const std::string& path);

class TextFile {
 public:
  explicit TextFile(std::string path);

  std::int64_t bytes();  // reads a compressed file to its end, once
  // The text at `offset`; less than asked for is its end.
  std::size_t read_some_at(std::int64_t offset, std::span<std::byte> out);

 private:
  void rewind();
  std::size_t read_next(std::span<std::byte> out);
  [[noreturn]] void fail(const std::string& what) const;

  std::string path_;
  InputFile file_;
  std::unique_ptr<Decompressor> decompressor_;  // nullptr: a file that is read as it is
  std::int64_t text_at_ = 0, file_at_ = 0;      // of what is read next
  std::vector<std::byte> stored_;               // of the file before file_at_
  std::span<const std::byte> left_;             // of stored_, not taken yet
  std::optional<std::int64_t> bytes_;
};

}  // namespace rondo
