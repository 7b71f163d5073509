#include "trainer/checkpoint/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

namespace rondo::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr int kMode = 0666;  // the umask decides
constexpr int kRetries = 5;
constexpr std::chrono::milliseconds kFirstPause{100};

bool may_pass(int error_number) {
  return error_number == EIO || error_number == ESTALE || error_number == ETIMEDOUT;
}

ExitCode code_of(int error_number) {
  switch (error_number) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
      return ExitCode::resources;
    default:
      return ExitCode::checkpoint;
  }
}

const char* advice(int error_number) {
  switch (error_number) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return "free space or raise the quota";
    case EMFILE:
    case ENFILE:
      return "raise the limit of open files (ulimit -n)";
    case EACCES:
    case EPERM:
    case EROFS:
      return "check the permissions of the folder and how it is mounted";
    case EIO:
    case ESTALE:
    case ETIMEDOUT:
      return "check the disk or the network file system (dmesg)";
    default:
      return "check the checkpoint folder";
  }
}

}  // namespace

FileError::FileError(std::string_view verb, const fs::path& path, int error_number)
    : Error(code_of(error_number), fmt::format("cannot {} {}: {}; {}", verb, path.string(),
                                               std::strerror(error_number), advice(error_number))),
      error_number_(error_number) {}

void with_retries(const std::function<void()>& action) {
  auto pause = kFirstPause;
  for (int retry = 0;; ++retry, pause *= 2) {
    try {
      return action();
    } catch (const FileError& error) {
      if (retry == kRetries || !may_pass(error.error_number())) throw;
    }
    std::this_thread::sleep_for(pause);
  }
}

File File::open(const fs::path& path) {
  // O_NONBLOCK: opening a pipe that took the file's place must not wait for a writer.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
  if (fd < 0) throw FileError("open", path, errno);
  File file(fd, path);
  struct stat facts {};
  if (::fstat(fd, &facts) != 0) throw FileError("open", path, errno);
  if (!S_ISREG(facts.st_mode)) throw FileError("read", path, EINVAL);
  return file;
}

File File::create(const fs::path& path) {
  remove_file(path);
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, kMode);
  if (fd < 0) throw FileError("create", path, errno);
  return File(fd, path);
}

File::~File() {
  if (fd_ >= 0) ::close(fd_);
}

File::File(File&& other) noexcept : fd_(other.fd_), path_(std::move(other.path_)) { other.fd_ = -1; }

File& File::operator=(File&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(path_, other.path_);
  return *this;
}

std::int64_t File::bytes() const {
  struct stat facts {};
  if (::fstat(fd_, &facts) != 0) throw FileError("read", path_, errno);
  return facts.st_size;
}

void File::reserve(std::int64_t bytes) {
  if (bytes == 0) return;
  while (::fallocate(fd_, 0, 0, bytes) != 0) {
    if (errno == EOPNOTSUPP || errno == ENOSYS) return;
    if (errno != EINTR) throw FileError("reserve space for", path_, errno);
  }
}

void File::write_at(std::int64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::pwrite(fd_, bytes.data(), bytes.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) throw FileError("write", path_, count < 0 ? errno : ENOSPC);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    offset += count;
  }
}

void File::start_writeback(std::int64_t offset, std::int64_t bytes) {
  // Only a hint: where it fails, `sync` does all the work.
  [[maybe_unused]] const int ignored = ::sync_file_range(fd_, offset, bytes, SYNC_FILE_RANGE_WRITE);
}

void File::sync() {
  if (::fsync(fd_) != 0) throw FileError("fsync", path_, errno);
}

void File::read_at(std::int64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t count = ::pread(fd_, out.data(), out.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw FileError("read", path_, errno);
    if (count == 0)
      throw Error(ExitCode::checkpoint,
                  fmt::format("cannot read {}: it ends at byte {}, though more is expected; it was cut short",
                              path_.string(), offset));
    out = out.subspan(static_cast<std::size_t>(count));
    offset += count;
  }
}

void File::drop_cache() const {
  [[maybe_unused]] const int ignored = ::posix_fadvise(fd_, 0, 0, POSIX_FADV_DONTNEED);
}

void make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw FileError("create", folder, error.value());
  if (!fs::is_directory(folder, error)) throw FileError("create", folder, ENOTDIR);
}

void sync_folder(const fs::path& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) throw FileError("open", folder, errno);
  const int error_number = ::fsync(fd) == 0 ? 0 : errno;
  ::close(fd);
  // EINVAL: a file system whose folders need no fsync.
  if (error_number != 0 && error_number != EINVAL) throw FileError("fsync", folder, error_number);
}

void rename_path(const fs::path& from, const fs::path& to) {
  bool again = false;
  with_retries([&] {
    std::error_code ignored;
    // A network file system may rename and then fail to say so.
    if (again && !fs::exists(from, ignored) && fs::exists(to, ignored)) return;
    again = true;
    if (::rename(from.c_str(), to.c_str()) != 0)
      throw FileError(fmt::format("rename {} to", from.string()), to, errno);
  });
}

void remove_file(const fs::path& file) {
  if (::unlink(file.c_str()) != 0 && errno != ENOENT) throw FileError("remove", file, errno);
}

void remove_tree(const fs::path& folder) {
  std::error_code error;
  fs::remove_all(folder, error);
  if (error) throw FileError("remove", folder, error.value());
}

void write_durably(const fs::path& file, std::string_view text) {
  const fs::path pending = file.parent_path() / fmt::format(".{}.pending", file.filename().string());
  with_retries([&] {
    File out = File::create(pending);
    out.write_at(0, std::as_bytes(std::span(text)));
    out.sync();
  });
  rename_path(pending, file);
  sync_folder(file.parent_path());
}

std::string read_text(const fs::path& file, std::int64_t limit) {
  std::string text;
  with_retries([&] {
    const File in = File::open(file);
    const std::int64_t bytes = in.bytes();
    if (bytes > limit)
      throw Error(ExitCode::checkpoint,
                  fmt::format("{} has {} bytes, more than the {} that such a file may have; it is damaged",
                              file.string(), bytes, limit));
    text.resize(static_cast<std::size_t>(bytes));
    in.read_at(0, std::as_writable_bytes(std::span(text)));
  });
  return text;
}

}  // namespace rondo::checkpoint
