#include "trainer/safetensors/reader.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "support/error.h"
#include "trainer/safetensors/io_error.h"

namespace rondo::safetensors {
namespace {

std::span<const std::byte> map(const std::filesystem::path& path) {
  // O_NONBLOCK: to open a pipe would wait for a writer.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) throw_io_error("open", path, errno);
  struct stat info {};
  const int stated = ::fstat(fd, &info);
  const bool regular = stated == 0 && S_ISREG(info.st_mode);
  const auto size = regular ? static_cast<std::size_t>(info.st_size) : 0;
  // No mapping is empty; an empty file is the parser's to refuse.
  void* start = size > 0 ? ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0) : nullptr;
  const int error_number = errno;
  ::close(fd);
  if (stated == 0 && !regular)
    throw Error(ExitCode::checkpoint, path.string() + ": not a file; name a .safetensors file");
  if (stated != 0 || start == MAP_FAILED) throw_io_error("map", path, error_number);
  return {static_cast<const std::byte*>(start), size};
}

void unmap(std::span<const std::byte> mapped) {
  if (!mapped.empty()) ::munmap(const_cast<std::byte*>(mapped.data()), mapped.size());
}

}  // namespace

File::File(std::filesystem::path path) : path_(std::move(path)), mapped_(map(path_)) {
  try {
    header_ = parse_header(mapped_, path_.string());
    for (std::size_t i = 0; i < header_.tensors.size(); ++i) index_.emplace(header_.tensors[i].name, i);
  } catch (...) {
    unmap(mapped_);
    throw;
  }
}

File::~File() { unmap(mapped_); }

File::File(File&& other) noexcept
    : path_(std::move(other.path_)),
      mapped_(std::exchange(other.mapped_, {})),
      header_(std::move(other.header_)),
      index_(std::move(other.index_)) {}

const TensorInfo* File::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &header_.tensors[found->second];
}

std::span<const std::byte> File::bytes(const TensorInfo& tensor) const {
  return bytes(tensor, 0, tensor.elements());
}

std::span<const std::byte> File::bytes(const TensorInfo& tensor, std::uint64_t begin,
                                       std::uint64_t end) const {
  RONDO_ASSERT(begin <= end && end <= tensor.elements(), "a range outside of " + shown_name(tensor.name));
  const std::uint64_t element = dtype_bytes(tensor.dtype);
  return mapped_.subspan(header_.data_begin + tensor.begin + begin * element, (end - begin) * element);
}

}  // namespace rondo::safetensors
