// A file mapped for reading. Integers in it are little-endian, at any alignment.
//
// Mapped bytes of a file that another process cuts short end the program with SIGBUS; `check_unchanged` before each
// use turns that into an error for all but the instant between the two. Any thread may read.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "support/error.h"

namespace rondo {

static_assert(std::endian::native == std::endian::little, "the formats of token files are little-endian");

class MappedFile {
 public:
  // Throws Error(data) naming the file when it cannot be opened or mapped. Reads nothing yet.
  explicit MappedFile(std::string path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& path() const { return path_; }
  int64_t size() const { return size_; }
  const std::byte* data() const { return data_; }  // nullptr when the file is empty

  // The integer at byte `offset`, which lies in the file.
  template <class T>
  T load(int64_t offset) const {
    RONDO_ASSERT(offset >= 0 && offset <= size_ - static_cast<int64_t>(sizeof(T)), "a load outside the file");
    T value;
    std::memcpy(&value, data_ + offset, sizeof value);
    return value;
  }

  // Throws Error(data) when the file is no longer there with the same size.
  void check_unchanged() const;

 private:
  std::string path_;
  int64_t size_ = 0;
  const std::byte* data_ = nullptr;
};

}  // namespace rondo
