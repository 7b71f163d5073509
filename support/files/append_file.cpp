#include "support/files/append_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "support/error.h"
#include "support/files/shortage.h"

namespace rondo {
namespace {

[[noreturn]] void fail(const char* what, const std::filesystem::path& path, int error_number) {
  const bool shortage = is_shortage(error_number);
  throw Error(shortage ? ExitCode::resources : ExitCode::environment,
              fmt::format("cannot {} {}: {}; {}", what, path.string(), std::strerror(error_number),
                          shortage ? "free space or raise the limit, then start again"
                                   : "check its permissions, or choose another job.dump_folder"));
}

// Writes everything or returns the errno; `*written` says how far it came.
int write_all(int fd, std::string_view text, std::size_t* written) {
  *written = 0;
  while (*written < text.size()) {
    const ssize_t count = ::write(fd, text.data() + *written, text.size() - *written);
    if (count > 0) {
      *written += static_cast<std::size_t>(count);
    } else if (count == 0) {
      return ENOSPC;
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

std::filesystem::path pending_name(const std::filesystem::path& path) {
  return path.parent_path() / fmt::format(".{}", path.filename().string());
}

constexpr int kMode = 0666;  // the umask decides
constexpr int kReservedBytes = 4096;

}  // namespace

AppendFile::AppendFile(std::filesystem::path path) : path_(std::move(path)) {
  fd_ = ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, kMode);
  if (fd_ < 0) fail("open", path_, errno);
}

AppendFile::AppendFile(AppendFile&& other) noexcept : path_(std::move(other.path_)), fd_(other.fd_) {
  other.fd_ = -1;
}

AppendFile::~AppendFile() {
  if (fd_ >= 0) ::close(fd_);
}

void AppendFile::append(std::string_view record) {
  std::size_t written = 0;
  const int error_number = write_all(fd_, record, &written);
  if (error_number == 0) return;
  struct stat now {};
  // Take the torn record back. Where that fails too, the reader's check of the last line is what remains.
  if (written > 0 && ::fstat(fd_, &now) == 0) {
    [[maybe_unused]] const int ignored = ::ftruncate(fd_, now.st_size - static_cast<off_t>(written));
  }
  fail("write", path_, error_number);
}

void replace_file(const std::filesystem::path& path, std::string_view text) {
  const std::filesystem::path pending = pending_name(path);
  // Not O_TRUNC: blocks that reserve_file took are to be used, not returned to a full disk.
  const int fd = ::open(pending.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, kMode);
  if (fd < 0) fail("write", path, errno);
  std::size_t written = 0;
  int error_number = write_all(fd, text, &written);
  if (error_number == 0 && ::ftruncate(fd, static_cast<off_t>(text.size())) != 0) error_number = errno;
  if (error_number == 0 && ::fsync(fd) != 0) error_number = errno;
  ::close(fd);
  if (error_number == 0 && ::rename(pending.c_str(), path.c_str()) != 0) error_number = errno;
  if (error_number != 0) {
    ::unlink(pending.c_str());
    fail("write", path, error_number);
  }
}

void reserve_file(const std::filesystem::path& path) {
  const int fd = ::open(pending_name(path).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, kMode);
  if (fd < 0) return;
  [[maybe_unused]] const int ignored = ::posix_fallocate(fd, 0, kReservedBytes);
  ::close(fd);
}

}  // namespace rondo
