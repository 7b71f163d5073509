// A file that is read for as long as a run takes: what a disk or a file server fails at for a while is tried
// again, with growing pauses and on a file opened anew, and each failure is told.
//
// Nothing is mapped: where another process cuts a file short, mapped bytes end the program with SIGBUS, and
// reads are an error that names the file. Offsets and sizes are bytes; integers are little-endian, at any
// alignment. Reading is const, and of one thread at a time.
//
// Errors: FileError once patience is out or the program is asked to stop (stop_signal.h); what no waiting
// mends (file_error.h) at once. Error of the file's use where its size is no longer what it was.
#pragma once

#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "support/files/file.h"

namespace rondo {

static_assert(std::endian::native == std::endian::little, "the formats of token files are little-endian");

class InputFile {
 public:
  // As File::open. Some hundred files keep their descriptors; more of them are opened for each read.
  InputFile(std::filesystem::path path, FileUse use);
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::int64_t size() const { return size_; }  // when it was opened

  // The bytes at `offset`, as many as the file has; fewer than asked for are the end of it.
  std::size_t read_some_at(std::int64_t offset, std::span<std::byte> out) const;
  // Fills `out`. Throws where the size of the file has changed.
  void read_at(std::int64_t offset, std::span<std::byte> out) const;

  // The integer at byte `offset`, which lies in the file. Blocks of the file are kept: fast for up to four
  // places that move on through it, and for one that goes on to the end, which is read in larger blocks.
  template <class T>
  T load(std::int64_t offset) const {
    T value;
    load_bytes(offset, std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }

 private:
  // Whether the descriptor is one of those that stay open.
  struct Place {
    Place();
    ~Place();
    const bool stays_open;
  };
  struct Block {
    std::int64_t begin = 0;
    std::vector<std::byte> bytes{};
    std::int64_t end() const { return begin + std::ssize(bytes); }
  };
  template <class Read>
  auto patiently(std::int64_t offset, Read read) const;
  const File& opened(std::int64_t offset) const;
  void let_go() const;
  [[noreturn]] void fail_changed(std::int64_t offset, std::int64_t size_now) const;
  void load_bytes(std::int64_t offset, std::span<std::byte> out) const;
  Block& block_with(std::int64_t offset) const;

  std::filesystem::path path_;
  FileUse use_;
  Place place_;
  std::int64_t size_ = -1;
  mutable std::optional<File> file_;
  mutable std::array<Block, 4> blocks_;
  mutable std::size_t oldest_ = 0;  // of blocks_
  mutable std::int64_t next_ = 0;   // where a read that goes on would begin
  mutable int went_on_ = 0;         // so often in a row
};

// How long reads of this process are tried again; 60 s unless it is set.
void set_read_patience(std::chrono::milliseconds patience);

}  // namespace rondo
