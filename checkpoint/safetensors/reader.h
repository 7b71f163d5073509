// A safetensors file: opening it reads the header alone, so a caller pays for the tensors and the ranges that
// it takes.
//
// Used by one thread at a time. Errors of reads, and of a file that is cut short meanwhile: input_file.h.
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
  // Throws Error(checkpoint) where the file is missing, unreadable or breaks a rule of the format (naming
  // file, tensor and rule), Error(resources) where memory or descriptors ran out.
  explicit File(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return file_->path(); }
  const std::vector<TensorInfo>& tensors() const { return header_.tensors; }  // by offset
  const Metadata& metadata() const { return header_.metadata; }

  // nullptr where there is no tensor of that name. Valid as long as this object.
  const TensorInfo* find(std::string_view name) const;

  // Elements of the flattened tensor, little-endian and row-major, from `begin` on until `out` is full.
  // `tensor` is one of tensors(). REQUIRES whole elements that it has.
  void read(const TensorInfo& tensor, std::uint64_t begin, std::span<std::byte> out) const;
  // The same in memory of its own: of all elements, or of [begin, end).
  std::vector<std::byte> bytes(const TensorInfo& tensor) const;
  std::vector<std::byte> bytes(const TensorInfo& tensor, std::uint64_t begin, std::uint64_t end) const;

 private:
  std::unique_ptr<InputFile> file_;
  Header header_;
  std::unordered_map<std::string_view, std::size_t> index_;  // into header_.tensors, whose names it views
};

}  // namespace rondo::safetensors
