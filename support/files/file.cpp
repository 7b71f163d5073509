// All loops retry after an interrupted or short call. A write of no byte is a full disk.
#include "support/files/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "support/watch/progress.h"

namespace rondo {
namespace {

namespace fs = std::filesystem;

}  // namespace

File File::open(const fs::path& path, FileUse use) {
  // O_NONBLOCK: opening a pipe must not wait for a writer.
  const progress::Reading reading(path.native());
  const int no_links = use == FileUse::checkpoint ? O_NOFOLLOW : 0;
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | no_links);
  if (fd < 0) throw FileError("open", path, errno, use);
  File file(fd, path, use);
  struct stat status {};
  if (::fstat(fd, &status) != 0) throw FileError("open", path, errno, use);
  if (!S_ISREG(status.st_mode))
    throw Error(exit_code_of(use), fmt::format("{}: not a regular file", path.string()));
  return file;
}

File File::create(const fs::path& path, FileUse use, const fs::path& shown) {
  remove_file(path, use);
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kFileMode);
  if (fd < 0) throw FileError(shown.empty() ? "create" : "write", shown.empty() ? path : shown, errno, use);
  return File(fd, shown.empty() ? path : shown, use);
}

File::~File() {
  if (fd_ >= 0) ::close(fd_);
}

File::File(File&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), path_(std::move(other.path_)), use_(other.use_) {}

File& File::operator=(File&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(path_, other.path_);
  std::swap(use_, other.use_);
  return *this;
}

std::int64_t File::bytes() const {
  struct stat status {};
  if (::fstat(fd_, &status) != 0) throw FileError("read", path_, errno, use_);
  return status.st_size;
}

std::size_t File::read_some_at(std::int64_t offset, std::span<std::byte> out) const {
  const progress::Reading reading(path_.native());
  std::size_t done = 0;
  while (done < out.size()) {
    const ssize_t count =
        ::pread(fd_, out.data() + done, out.size() - done, offset + static_cast<std::int64_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw FileError("read", path_, errno, use_);
    if (count == 0) break;
    done += static_cast<std::size_t>(count);
  }
  return done;
}

void File::read_at(std::int64_t offset, std::span<std::byte> out) const {
  const std::size_t count = read_some_at(offset, out);
  if (count < out.size())
    throw Error(exit_code_of(use_),
                fmt::format("cannot read {}: it ends at byte {}, but more is expected; it was truncated",
                            path_.string(), offset + static_cast<std::int64_t>(count)));
}

void File::drop_cache() const {
  [[maybe_unused]] const int ignored = ::posix_fadvise(fd_, 0, 0, POSIX_FADV_DONTNEED);
}

void File::reserve(std::int64_t bytes) {
  if (bytes == 0) return;
  while (::fallocate(fd_, 0, 0, bytes) != 0) {
    if (errno == EOPNOTSUPP || errno == ENOSYS) return;
    if (errno != EINTR) throw FileError("reserve space for", path_, errno, use_);
  }
}

void File::write_at(std::int64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::pwrite(fd_, bytes.data(), bytes.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) throw FileError("write", path_, count < 0 ? errno : ENOSPC, use_);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    offset += count;
  }
}

void File::start_writeback(std::int64_t offset, std::int64_t bytes) {
  // Only a hint: if it fails, `sync` does all the work.
  [[maybe_unused]] const int ignored = ::sync_file_range(fd_, offset, bytes, SYNC_FILE_RANGE_WRITE);
}

void File::resize(std::int64_t bytes) {
  if (::ftruncate(fd_, bytes) != 0) throw FileError("write", path_, errno, use_);
}

void File::sync() {
  if (::fsync(fd_) != 0) throw FileError("fsync", path_, errno, use_);
}

void File::close() {
  // The descriptor is closed even if the call fails.
  if (::close(std::exchange(fd_, -1)) != 0) throw FileError("write", path_, errno, use_);
}

std::string read_file(const fs::path& path, std::int64_t max_bytes, FileUse use) {
  const File file = File::open(path, use);
  const std::int64_t bytes = file.bytes();
  if (bytes > max_bytes)
    throw Error(exit_code_of(use), fmt::format("{} has {} bytes, but files of this kind may have at most {}",
                                               path.string(), bytes, max_bytes));
  std::string text(static_cast<std::size_t>(bytes), '\0');
  file.read_at(0, std::as_writable_bytes(std::span(text)));
  return text;
}

double modified_s(const fs::path& path) {
  struct stat facts {};
  if (::stat(path.c_str(), &facts) != 0) return 0;
  return static_cast<double>(facts.st_mtim.tv_sec) + 1e-9 * static_cast<double>(facts.st_mtim.tv_nsec);
}

fs::path folder_of(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : "."; }

void sync_folder(const fs::path& folder, FileUse use) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) throw FileError("open", folder, errno, use);
  const int error_number = ::fsync(fd) == 0 ? 0 : errno;
  ::close(fd);
  if (error_number != 0 && error_number != EINVAL) throw FileError("fsync", folder, error_number, use);
}

void rename_file(const fs::path& from, const fs::path& to, FileUse use) {
  if (::rename(from.c_str(), to.c_str()) != 0)
    throw FileError(fmt::format("rename {} to", from.string()), to, errno, use);
}

void remove_file(const fs::path& path, FileUse use) {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) throw FileError("remove", path, errno, use);
}

}  // namespace rondo
