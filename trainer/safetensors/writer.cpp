#include "trainer/safetensors/writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "support/error.h"
#include "trainer/safetensors/io_error.h"

namespace rondo::safetensors {
namespace {

constexpr int kMode = 0666;  // the umask decides

// A new file beside `path`: its name and descriptor. The name is never one that another writer has.
std::pair<std::filesystem::path, int> create_beside(const std::filesystem::path& path) {
  for (int attempt = 0;; ++attempt) {
    const std::string name =
        "." + path.filename().string() + ".tmp-" + std::to_string(::getpid()) + "-" + std::to_string(attempt);
    std::filesystem::path pending = path.parent_path() / name;
    const int fd = ::open(pending.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kMode);
    if (fd >= 0) return {std::move(pending), fd};
    if (errno != EEXIST) throw_io_error("write", path, errno);
  }
}

// The disk says that it is full now, before an hour of writing. Some file systems cannot promise space.
int take_space(int fd, std::uint64_t bytes) {
  const auto length = static_cast<off_t>(bytes);
  while (::fallocate(fd, 0, 0, length) != 0) {
    if (errno == EOPNOTSUPP) return ::ftruncate(fd, length) == 0 ? 0 : errno;
    if (errno != EINTR) return errno;
  }
  return 0;
}

int write_at(int fd, std::uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count == 0) return ENOSPC;
    if (count < 0 && errno != EINTR) return errno;
    if (count < 0) continue;
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
  return 0;
}

int sync_folder_of(const std::filesystem::path& path) {
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return errno;
  const int error_number = ::fsync(fd) == 0 ? 0 : errno;
  ::close(fd);
  return error_number;
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
    const bool fresh = name != "__metadata__" && index_.emplace(name, i).second;
    RONDO_ASSERT(fresh, "the tensor name " + shown_name(name) + " is taken");
  }
  std::tie(pending_, fd_) = create_beside(path_);
  int error_number = take_space(fd_, header_.data_begin + header_.data_bytes);
  const std::string head = header_bytes(header_);
  if (error_number == 0) error_number = write_at(fd_, 0, std::as_bytes(std::span(head)));
  if (error_number == 0) return;
  ::close(fd_);
  ::unlink(pending_.c_str());
  throw_io_error("write", path_, error_number);
}

Writer::~Writer() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(pending_.c_str());
}

void Writer::write(std::string_view name, std::uint64_t byte_offset, std::span<const std::byte> bytes) {
  RONDO_ASSERT(fd_ >= 0, path_.string() + " is finished");
  const auto found = index_.find(name);
  RONDO_ASSERT(found != index_.end(), path_.string() + " has no tensor " + shown_name(name));
  const TensorInfo& tensor = header_.tensors[found->second];
  RONDO_ASSERT(byte_offset <= tensor.bytes() && bytes.size() <= tensor.bytes() - byte_offset,
               "bytes outside of the tensor " + shown_name(name));
  const bool fresh = written_[found->second].add(byte_offset, byte_offset + bytes.size());
  RONDO_ASSERT(fresh, "bytes of the tensor " + shown_name(name) + " come twice");
  const int error_number = write_at(fd_, header_.data_begin + tensor.begin + byte_offset, bytes);
  if (error_number != 0) throw_io_error("write", path_, error_number);
}

void Writer::finish() {
  RONDO_ASSERT(fd_ >= 0, path_.string() + " is finished");
  for (std::size_t i = 0; i < written_.size(); ++i)
    RONDO_ASSERT(written_[i].are_exactly(header_.tensors[i].bytes()),
                 "bytes of the tensor " + shown_name(header_.tensors[i].name) + " never came");
  if (::fsync(fd_) != 0) throw_io_error("write", path_, errno);
  // NFS reports a full disk at close; the descriptor is gone either way.
  const int closed = ::close(std::exchange(fd_, -1));
  int error_number = closed == 0 ? 0 : errno;
  if (error_number == 0 && ::rename(pending_.c_str(), path_.c_str()) != 0) error_number = errno;
  if (error_number != 0) ::unlink(pending_.c_str());
  if (error_number == 0) error_number = sync_folder_of(path_);
  if (error_number != 0) throw_io_error("write", path_, error_number);
}

}  // namespace rondo::safetensors
