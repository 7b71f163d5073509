// The layout is fixed before the first byte, so pieces can be written in any order. Written ranges
// are kept in a map by their beginning and merged with their neighbours. So an overlap is detected
// immediately, and a complete tensor is one range. All disk space is reserved at the start, so a
// full disk is detected before any work. The file is synced, closed with a check and renamed, and
// its folder is synced.
#include "checkpoint/safetensors/writer.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <utility>

#include "support/error.h"

namespace rondo::safetensors {
namespace {

// Returns a suffix that no other writer uses.
std::string own_suffix() {
  static std::atomic<int> writers = 0;
  return fmt::format("part-{}-{}", ::getpid(), writers++);
}

}  // namespace

bool WrittenRanges::add(std::uint64_t begin, std::uint64_t end) {
  if (begin == end) return true;
  auto next = ends_.lower_bound(begin);
  if (next != ends_.end() && next->first < end) return false;
  if (next != ends_.end() && next->first == end) {
    end = next->second;
    next = ends_.erase(next);
  }
  if (next != ends_.begin()) {
    const auto previous = std::prev(next);
    if (previous->second > begin) return false;
    if (previous->second == begin) {
      previous->second = end;
      return true;
    }
  }
  ends_.emplace(begin, end);
  return true;
}

bool WrittenRanges::are_exactly(std::uint64_t bytes) const {
  if (bytes == 0) return ends_.empty();
  return ends_.size() == 1 && ends_.begin()->first == 0 && ends_.begin()->second == bytes;
}

Writer::Writer(std::filesystem::path path, std::vector<TensorInfo> tensors, Metadata metadata)
    : path_(std::move(path)),
      header_(lay_out(std::move(tensors), std::move(metadata))),
      written_(header_.tensors.size()) {
  for (std::size_t i = 0; i < header_.tensors.size(); ++i) {
    const std::string& name = header_.tensors[i].name;
    const bool is_new = name != "__metadata__" && index_.emplace(name, i).second;
    RONDO_ASSERT(is_new, "the tensor name " + shown_name(name) + " is taken");
  }
  file_.emplace(path_, FileUse::output, own_suffix());
  file_->reserve(static_cast<std::int64_t>(header_.data_begin + header_.data_bytes));
  const std::string head = header_bytes(header_);
  file_->write_at(0, std::as_bytes(std::span(head)));
}

void Writer::write(std::string_view name, std::uint64_t byte_offset, std::span<const std::byte> bytes) {
  RONDO_ASSERT(file_.has_value(), path_.string() + " is finished");
  const auto it = index_.find(name);
  RONDO_ASSERT(it != index_.end(), path_.string() + " has no tensor " + shown_name(name));
  const TensorInfo& tensor = header_.tensors[it->second];
  RONDO_ASSERT(byte_offset <= tensor.bytes() && bytes.size() <= tensor.bytes() - byte_offset,
               "bytes outside of the tensor " + shown_name(name));
  const bool is_new = written_[it->second].add(byte_offset, byte_offset + bytes.size());
  RONDO_ASSERT(is_new, "bytes of the tensor " + shown_name(name) + " are written twice");
  file_->write_at(static_cast<std::int64_t>(header_.data_begin + tensor.begin + byte_offset), bytes);
}

void Writer::finish() {
  RONDO_ASSERT(file_.has_value(), path_.string() + " is finished");
  for (std::size_t i = 0; i < written_.size(); ++i)
    RONDO_ASSERT(written_[i].are_exactly(header_.tensors[i].bytes()),
                 "bytes of the tensor " + shown_name(header_.tensors[i].name) + " are missing");
  file_->commit();
  file_.reset();
}

}  // namespace rondo::safetensors
