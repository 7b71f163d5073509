#include "support/files/mapped_file.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "support/files/file.h"

namespace rondo {

MappedFile::MappedFile(std::filesystem::path path, FileUse use) : path_(std::move(path)), use_(use) {
  const File file = File::open(path_, use_);
  const auto size = static_cast<std::size_t>(file.bytes());
  if (size == 0) return;  // no mapping is empty
  void* start = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.descriptor(), 0);
  if (start == MAP_FAILED) throw FileError("map", path_, errno, use_);
  bytes_ = {static_cast<const std::byte*>(start), size};
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), use_(other.use_), bytes_(std::exchange(other.bytes_, {})) {}

void MappedFile::check_unchanged() const {
  struct stat facts {};
  if (::stat(path_.c_str(), &facts) != 0) throw FileError("find", path_, errno, use_);
  if (facts.st_size != size())
    throw Error(exit_code_of(use_),
                fmt::format("{}: changed while it was in use: it had {} bytes and has {} now. Restore the "
                            "file, or start a new run on the new data",
                            path_.string(), size(), facts.st_size));
}

}  // namespace rondo
