// A file mapped for reading. Opening reads nothing of it: bytes come from the disk when they are touched.
// Integers in it are little-endian, at any alignment.
//
// Mapped bytes of a file that another process cuts short end the program with SIGBUS. Files of weights are
// replaced by rename, never written in place; for data, `check_unchanged` before each use turns that into an
// error for all but the instant between the two. Any thread may read.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <span>

#include "support/files/file_error.h"

namespace rondo {

static_assert(std::endian::native == std::endian::little, "the formats of token files are little-endian");

class MappedFile {
 public:
  // Throws as File::open does. The descriptor is closed at once: thousands of files need none.
  MappedFile(std::filesystem::path path, FileUse use);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::span<const std::byte> bytes() const { return bytes_; }
  std::int64_t size() const { return std::ssize(bytes_); }
  const std::byte* data() const { return bytes_.data(); }  // nullptr when the file is empty

  // The integer at byte `offset`, which lies in the file.
  template <class T>
  T load(std::int64_t offset) const {
    RONDO_ASSERT(offset >= 0 && offset <= size() - static_cast<std::int64_t>(sizeof(T)),
                 "a load outside the file");
    T value;
    std::memcpy(&value, data() + offset, sizeof value);
    return value;
  }

  // Throws an Error of the file's use when it is no longer there with the same size.
  void check_unchanged() const;

 private:
  std::filesystem::path path_;
  FileUse use_;
  std::span<const std::byte> bytes_;
};

}  // namespace rondo
