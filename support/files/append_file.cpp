// A record is one write(2) to a descriptor with O_APPEND, behind what waits from before. If the disk cuts it
// short, ftruncate takes the torn part back, and all of it waits. So a disk that is full for a moment costs
// nothing; its owner asks `trouble` when it should no longer be waited for.
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
  // O_NONBLOCK: opening a pipe must not wait for a reader.
  constexpr int kFlags = O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  fd_ = ::open(path_.c_str(), kFlags, kFileMode);
  if (fd_ < 0) throw FileError("open", path_, errno, FileUse::run);
}

AppendFile::AppendFile(AppendFile&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      kept_(std::exchange(other.kept_, {})),
      kept_records_(std::exchange(other.kept_records_, 0)),
      error_number_(other.error_number_) {}

AppendFile::~AppendFile() {
  if (!kept_.empty() && !write_kept())
    log_warning(fmt::format("{} lacks its last {} bytes: {}", path_.string(), kept_.size(),
                            std::strerror(error_number_)));
  if (fd_ >= 0) ::close(fd_);
}

void AppendFile::cut(std::int64_t bytes) {
  if (::ftruncate(fd_, bytes) != 0) throw FileError("write", path_, errno, FileUse::run);
}

void AppendFile::append(std::string_view record) {
  const bool waited = !kept_.empty();
  kept_ += record;
  ++kept_records_;
  if (write_kept()) {
    if (waited) log_info(path_.string() + " can be written again; nothing of it is lost");
  } else if (!waited) {
    log_warning(fmt::format(
        "cannot write {}: {}; the run goes on and tries again, up to {} KiB or {} records wait in memory",
        path_.string(), std::strerror(error_number_), kMostKept >> 10, kRecordsKept));
  }
}

std::string AppendFile::trouble() const {
  if (std::ssize(kept_) <= kMostKept || kept_records_ <= kRecordsKept) return "";
  return FileError("write", path_, error_number_, FileUse::run).what();
}

bool AppendFile::write_kept() {
  std::size_t written = 0;
  error_number_ = write_all(fd_, kept_, &written);
  if (error_number_ == 0) {
    kept_.clear();
    kept_records_ = 0;
    return true;
  }
  struct stat now {};
  // Where the torn record cannot be taken back, the reader's check of the last line is what remains.
  if (written > 0 && ::fstat(fd_, &now) == 0) {
    [[maybe_unused]] const int ignored = ::ftruncate(fd_, now.st_size - static_cast<off_t>(written));
  }
  return false;
}

}  // namespace rondo
