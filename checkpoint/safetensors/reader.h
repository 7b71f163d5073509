// Reads a safetensors file. Opening reads only the header; tensors and ranges are read on request.
//
// Used by one thread at a time. For errors of reads, and of a file that shrinks while it is open,
// see input_file.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "checkpoint/safetensors/format.h"
#include "support/files/input_file.h"

namespace rondo::safetensors {

class File {
 public:
  // Throws Error(checkpoint) when the file is missing, unreadable or breaks a rule of the format,
  // naming file, tensor and rule. Throws Error(resources) when memory or descriptors are exhausted.
  explicit File(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return file_->path(); }
  const std::vector<TensorInfo>& tensors() const { return header_.tensors; }  // by offset
  const Metadata& metadata() const { return header_.metadata; }

  // Returns nullptr if there is no tensor of that name. Valid for the lifetime of this object.
  const TensorInfo* find(std::string_view name) const;

  // Fills `out` with elements of the flattened tensor, little-endian and row-major, from `begin`
  // on. REQUIRES: `tensor` is one of tensors(), and `out` has the size of whole elements within it.
  void read(const TensorInfo& tensor, std::uint64_t begin, std::span<std::byte> out) const;
  // Return all elements, or elements [begin, end).
  std::vector<std::byte> bytes(const TensorInfo& tensor) const;
  std::vector<std::byte> bytes(const TensorInfo& tensor, std::uint64_t begin, std::uint64_t end) const;

 private:
  std::unique_ptr<InputFile> file_;
  Header header_;
  std::unordered_map<std::string_view, std::size_t> index_;  // into header_.tensors, whose names it views
};

}  // namespace rondo::safetensors
