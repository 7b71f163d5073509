// A record is one write(2) to a descriptor with O_APPEND. If the disk cuts it short, ftruncate takes the torn
// part back before the error goes out. A replaced file is written beside its target, synced and renamed. The
// pending file is not truncated when it is opened: reserve_file() may have taken blocks for it, and a full
// disk would not give them back.
#include "support/files/append_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "support/files/file.h"
#include "support/files/file_error.h"

namespace rondo {
namespace {

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

}  // namespace

AppendFile::AppendFile(std::filesystem::path path) : path_(std::move(path)) {
  fd_ = ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, kFileMode);
  if (fd_ < 0) throw FileError("open", path_, errno, FileUse::run);
}

AppendFile::AppendFile(AppendFile&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}

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
  throw FileError("write", path_, error_number, FileUse::run);
}

}  // namespace rondo
