// Writes a safetensors file piece by piece, in any order. So no tensor is whole in memory, and
// ranks can write the parts that they hold. A reader of the path sees the old file or the complete
// new one.
//
// A writer owns one temporary file next to the path (AtomicFile), ".NAME.part-PID-N". An unfinished
// writer removes it; a killed process leaves it. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "checkpoint/safetensors/format.h"
#include "support/files/atomic_file.h"

namespace rondo::safetensors {

// The written byte ranges of one tensor; adjacent ranges are merged.
class WrittenRanges {
 public:
  bool add(std::uint64_t begin, std::uint64_t end);  // returns false for an overlap with an earlier range
  bool are_exactly(std::uint64_t bytes) const;       // returns whether they are [0, bytes)

 private:
  std::map<std::uint64_t, std::uint64_t> ends_;  // by begin
};

class Writer {
 public:
  // Lays out the tensors (format.h: lay_out), reserves the disk space of the whole file and writes
  // the header. Throws Error(resources) when the disk is too full, Error(environment) when the
  // folder cannot be written.
  Writer(std::filesystem::path path, std::vector<TensorInfo> tensors, Metadata metadata = {});

  const Header& header() const { return header_; }

  // Writes `bytes` (little-endian, row-major) at `byte_offset` of the tensor. REQUIRES: every byte
  // of every tensor exactly once.
  void write(std::string_view tensor, std::uint64_t byte_offset, std::span<const std::byte> bytes);

  // Checks that every byte was written, syncs, and renames the file. REQUIRES: no call follows.
  void finish();

 private:
  std::filesystem::path path_;
  Header header_;
  std::unordered_map<std::string_view, std::size_t> index_;  // into header_.tensors, whose names it views
  std::vector<WrittenRanges> written_;
  std::optional<AtomicFile> file_;  // present until finish()
};

}  // namespace rondo::safetensors
