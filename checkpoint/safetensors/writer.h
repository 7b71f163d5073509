// Writes a safetensors file piece by piece, in any order, so that no tensor is ever whole in memory and ranks
// can hand in what they hold. Whoever opens the path sees the old file or the complete new one.
//
// One writer owns one temporary file beside the path (AtomicFile), ".NAME.part-PID-N"; it goes away with a
// writer that did not finish (a killed process leaves it). Not thread-safe.
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

// Byte ranges of one tensor, adjacent ones joined.
class WrittenRanges {
 public:
  bool add(std::uint64_t begin, std::uint64_t end);  // false where it overlaps what is there
  bool are_exactly(std::uint64_t bytes) const;       // [0, bytes) and nothing else

 private:
  std::map<std::uint64_t, std::uint64_t> ends_;  // by begin
};

class Writer {
 public:
  // Lays the tensors out (format.h: lay_out), takes the disk space of the whole file and writes the header.
  // Throws Error(resources) where the disk is too full, Error(environment) where the folder cannot be
  // written.
  Writer(std::filesystem::path path, std::vector<TensorInfo> tensors, Metadata metadata = {});

  const Header& header() const { return header_; }

  // `bytes` (little-endian, row-major) belong at `byte_offset` of the tensor. Every byte of every tensor is
  // to be written exactly once; a second time, or a place outside of the tensor, is a bug of the caller.
  void write(std::string_view tensor, std::uint64_t byte_offset, std::span<const std::byte> bytes);

  // Checks that every byte was written, syncs, and gives the file its name. Nothing may follow.
  void finish();

 private:
  std::filesystem::path path_;
  Header header_;
  std::unordered_map<std::string_view, std::size_t> index_;  // into header_.tensors, whose names it views
  std::vector<WrittenRanges> written_;
  std::optional<AtomicFile> file_;  // until finish()
};

}  // namespace rondo::safetensors
