#include "support/files/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace rondo {
namespace {

[[noreturn]] void fail(const std::string& path, const char* doing, int error_number) {
  throw Error(ExitCode::data, fmt::format("{}: cannot {} it: {}", path, doing,
                                          std::generic_category().message(error_number)));
}

}  // namespace

MappedFile::MappedFile(std::string path) : path_(std::move(path)) {
  const int fd = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) fail(path_, "open", errno);
  struct stat info;
  const char* failed = nullptr;
  if (fstat(fd, &info) != 0) {
    failed = "stat";
  } else if (info.st_size > 0) {
    void* mapped = mmap(nullptr, static_cast<size_t>(info.st_size), PROT_READ, MAP_SHARED, fd, 0);
    if (mapped == MAP_FAILED) {
      failed = "map";
    } else {
      data_ = static_cast<const std::byte*>(mapped);
      size_ = info.st_size;
    }
  }
  const int error_number = errno;
  ::close(fd);  // the mapping stays: thousands of files need no descriptors
  if (failed != nullptr) fail(path_, failed, error_number);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(const_cast<std::byte*>(data_), static_cast<size_t>(size_));
}

void MappedFile::check_unchanged() const {
  struct stat info;
  if (::stat(path_.c_str(), &info) != 0) fail(path_, "find", errno);
  if (info.st_size != size_)
    throw Error(ExitCode::data,
                fmt::format("{}: changed while it was in use: it had {} bytes and has {} now. Restore the "
                            "file, or start a new run on the new data",
                            path_, size_, info.st_size));
}

}  // namespace rondo
