// A file that is read during a whole run. Transient failures of a disk or a file server are
// retried, with growing pauses and on a reopened file. Each failure is logged.
//
// Nothing is mapped: if another process truncates a mapped file, SIGBUS ends the program, but a
// read returns an error that names the file. Offsets and sizes are in bytes. Integers are
// little-endian, at any alignment. Reads are const but not thread-safe.
//
// Throws FileError when the time limit is over or a stop is requested (stop_signal.h). Permanent
// errors (file_error.h) throw at once. Throws Error of the file's use if its size has changed.
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
  // Opens the file as File::open does. The first few hundred files keep their descriptors; further
  // files are opened for each read.
  InputFile(std::filesystem::path path, FileUse use);
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::int64_t size() const { return size_; }  // when it was opened

  // Reads up to out.size() bytes at `offset`. Fewer bytes mean the end of the file.
  std::size_t read_some_at(std::int64_t offset, std::span<std::byte> out) const;
  // Fills `out`. Throws if the size of the file has changed.
  void read_at(std::int64_t offset, std::span<std::byte> out) const;

  // Returns the integer at byte `offset`, which must be within the file. Blocks of the file are
  // cached. Fast for up to four cursors that advance through the file. A cursor that reads
  // sequentially gets larger blocks.
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
  void close_unless_cached() const;
  [[noreturn]] void fail_changed(std::int64_t offset, std::int64_t size_now) const;
  void load_bytes(std::int64_t offset, std::span<std::byte> out) const;
  Block& block_with(std::int64_t offset) const;

  std::filesystem::path path_;
  FileUse use_;
  Place place_;
  std::int64_t size_ = -1;
  mutable std::optional<File> file_;
  mutable std::array<Block, 4> blocks_;
  mutable std::size_t oldest_ = 0;       // index into blocks_
  mutable std::int64_t next_begin_ = 0;  // where the next sequential read begins
  mutable int sequential_reads_ = 0;     // consecutive sequential reads
};

// Sets how long this process retries reads; 60 s by default.
void set_read_patience(std::chrono::milliseconds patience);

}  // namespace rondo
