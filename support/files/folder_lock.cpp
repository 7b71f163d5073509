// The lock file names its holder: "PROCESS HOST". If the file is removed, with or without the
// folder, later processes are not locked out. So a lock counts only if its file still has the name.
#include "support/files/folder_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <iomanip>
#include <thread>
#include <utility>

#include "support/log.h"
#include "support/machine/machine.h"
#include "support/stop_signal.h"
#include "support/stopwatch.h"

namespace rondo {
namespace {

namespace fs = std::filesystem;

constexpr double kRemoteWait_s = 120, kLocalWait_s = 1;

struct Holder {
  std::int64_t process = 0;
  std::string host;
};
// Returns an empty holder if the file has none. The file is untrusted: any writer may put anything
// into it.
Holder holder_of(const fs::path& folder) {
  Holder holder;
  std::ifstream(folder / FolderLock::kFile) >> holder.process >> std::setw(256) >> holder.host;
  for (char& c : holder.host)
    if (c < '!' || c > '~') c = '?';
  return holder;
}
bool is_elsewhere(const Holder& holder) { return !holder.host.empty() && holder.host != host_name(); }

bool has_name(int fd, const fs::path& file) {
  struct stat open_file {};
  struct stat named_file {};
  return ::fstat(fd, &open_file) == 0 && ::lstat(file.c_str(), &named_file) == 0 &&
         open_file.st_ino == named_file.st_ino && open_file.st_dev == named_file.st_dev;
}

void write_holder(int fd) {
  const std::string text = fmt::format("{} {}\n", ::getpid(), host_name());
  [[maybe_unused]] const bool written =
      ::ftruncate(fd, 0) == 0 && ::write(fd, text.data(), text.size()) == std::ssize(text);
}

// Returns the descriptor, or -1 if another process holds the lock.
int try_to_take(const fs::path& folder, FileUse use) {
  const fs::path file = folder / FolderLock::kFile;
  while (true) {
    int fd = ::open(file.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
    // A lock file of another user, in a folder that both may write.
    if (fd < 0 && errno == EACCES) fd = ::open(file.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) throw FileError("open", folder, errno, use);
    if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK) {
        ::close(fd);
        return -1;
      }
      static std::atomic<bool> warned = false;
      if (!warned.exchange(true))
        log_warning(
            fmt::format("the file system of {} has no locks: two runs could use one folder at the same time",
                        folder.string()));
    } else if (!has_name(fd, file)) {
      ::close(fd);
      continue;
    }
    write_holder(fd);
    return fd;
  }
}

}  // namespace

std::optional<FolderLock> FolderLock::take(const fs::path& folder, FileUse use) {
  const int fd = try_to_take(folder, use);
  if (fd < 0) return std::nullopt;
  return FolderLock(fd);
}

std::optional<FolderLock> FolderLock::take_patiently(const fs::path& folder, FileUse use) {
  const Stopwatch waiting;
  for (bool logged = false;; logged = true) {
    if (auto lock = take(folder, use)) return lock;
    const Holder holder = holder_of(folder);
    const bool is_remote = is_elsewhere(holder);
    if (waiting.seconds() > (is_remote ? kRemoteWait_s : kLocalWait_s) || stop_requested())
      return std::nullopt;
    if (!logged && is_remote)
      log_info(fmt::format("waiting up to {:.0f} s for process {} on {}, which holds {}", kRemoteWait_s,
                           holder.process, holder.host, folder.string()));
    std::this_thread::sleep_for(std::chrono::milliseconds(is_remote ? 500 : 50));
  }
}

std::string FolderLock::holder_elsewhere(const fs::path& folder) {
  const Holder holder = holder_of(folder);
  if (!is_elsewhere(holder)) return "";
  return fmt::format(": process {} on {}; if that machine is down, remove {}", holder.process, holder.host,
                     (folder / kFile).string());
}

void FolderLock::remove_folder(const fs::path& folder) {
  ::unlink((folder / kFile).c_str());
  ::rmdir(folder.c_str());
}

FolderLock::~FolderLock() {
  if (fd_ >= 0) ::close(fd_);
}

FolderLock::FolderLock(FolderLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

FolderLock& FolderLock::operator=(FolderLock&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

}  // namespace rondo
