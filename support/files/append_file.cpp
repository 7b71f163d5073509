// A record is appended to the pending bytes, and all are one write(2) to a descriptor with
// O_APPEND. If the disk cuts the write short, ftruncate removes the torn part and all bytes stay
// pending. So a disk that is full for a moment loses nothing. The owner checks `trouble` to decide
// when to give up.
#include "support/files/append_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "support/files/file.h"
#include "support/files/file_error.h"
#include "support/log.h"

namespace rondo {
namespace {

// Writes everything or returns the errno. `*written` is the number of bytes written.
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
  // O_NONBLOCK: opening a pipe must not wait for a reader.
  constexpr int kFlags = O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  fd_ = ::open(path_.c_str(), kFlags, kFileMode);
  if (fd_ < 0) throw FileError("open", path_, errno, FileUse::run);
}

AppendFile::AppendFile(AppendFile&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      pending_(std::exchange(other.pending_, {})),
      pending_records_(std::exchange(other.pending_records_, 0)),
      error_number_(other.error_number_) {}

AppendFile::~AppendFile() {
  if (!pending_.empty() && !write_pending())
    log_warning(fmt::format("{} lost its last {} bytes: {}", path_.string(), pending_.size(),
                            std::strerror(error_number_)));
  if (fd_ >= 0) ::close(fd_);
}

void AppendFile::cut(std::int64_t bytes) {
  if (::ftruncate(fd_, bytes) != 0) throw FileError("write", path_, errno, FileUse::run);
}

void AppendFile::append(std::string_view record) {
  const bool had_pending = !pending_.empty();
  pending_ += record;
  ++pending_records_;
  if (write_pending()) {
    if (had_pending) log_info(path_.string() + " can be written again; nothing was lost");
  } else if (!had_pending) {
    log_warning(fmt::format(
        "cannot write {}: {}; the run continues and retries; up to {} KiB or {} records are kept in memory",
        path_.string(), std::strerror(error_number_), kMaxKept >> 10, kRecordsKept));
  }
}

std::string AppendFile::trouble() const {
  if (std::ssize(pending_) <= kMaxKept || pending_records_ <= kRecordsKept) return "";
  return FileError("write", path_, error_number_, FileUse::run).what();
}

bool AppendFile::write_pending() {
  std::size_t written = 0;
  error_number_ = write_all(fd_, pending_, &written);
  if (error_number_ == 0) {
    pending_.clear();
    pending_records_ = 0;
    return true;
  }
  struct stat status {};
  // If the torn record cannot be removed, the reader's check of the last line detects it.
  if (written > 0 && ::fstat(fd_, &status) == 0) {
    [[maybe_unused]] const int ignored = ::ftruncate(fd_, status.st_size - static_cast<off_t>(written));
  }
  return false;
}

}  // namespace rondo
