// A library for LD_PRELOAD that makes file system calls fail, be short, or end the process.
//
// It counts, per process, the calls below a path: open, creat, write, pwrite, fsync, fdatasync,
// ftruncate, fallocate, rename, mkdir, unlink, rmdir (with their *at and *64 forms), and pread and
// lstat if they are named. Environment:
//   FAILING_FILES_UNDER   paths that begin with this count; without it nothing happens
//   FAILING_FILES_CALLS   only these count, by the names above, comma-separated; default: all but
//                         those two
//   FAILING_FILES_AT      the number of the first call to disturb, from 1; default: none, count
//                         only
//   FAILING_FILES_TIMES   how many from there on; default 1
//   FAILING_FILES_ACTION  EIO, ENOSPC, EACCES, EROFS, ESTALE, EDQUOT, EMFILE or ENOENT: the call
//                         fails so;
//                         "short": a write takes half of its bytes; "kill", "stop": SIGKILL or
//                         SIGSTOP before the call; "vanish": the folder UNDER is renamed to
//                         UNDER.gone before the call; "slow": the call begins 4 seconds later;
//                         "hang": it never returns; "exit": the process ends with 0
//   FAILING_FILES_RANK    only in processes whose RANK is this
//   FAILING_FILES_LOG     a file that gets a line "PID NUMBER CALL PATH" for each call that counts
// System calls are made directly, so nothing here depends on what libc has initialised.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

namespace {

enum class Action { none, fail, cut_short };

struct Plan {
  std::string_view under, calls, action;
  long at = 0, times = 1;
  int error_number = 0;
  const char* log = nullptr;
};

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

long number(const char* name, long otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr || *value == '\0' ? otherwise : std::atol(value);
}

int error_named(std::string_view name) {
  constexpr std::pair<std::string_view, int> kErrors[] = {
      {"EIO", EIO},       {"ENOSPC", ENOSPC}, {"EACCES", EACCES}, {"EROFS", EROFS},
      {"ESTALE", ESTALE}, {"EDQUOT", EDQUOT}, {"EMFILE", EMFILE}, {"ENOENT", ENOENT}};
  for (const auto& [known, number] : kErrors)
    if (known == name) return number;
  return 0;
}

Plan read_plan() {
  Plan plan;
  const std::string_view rank = variable("FAILING_FILES_RANK");
  if (!rank.empty() && rank != variable("RANK")) return plan;
  plan.under = variable("FAILING_FILES_UNDER");
  plan.calls = variable("FAILING_FILES_CALLS");
  plan.action = variable("FAILING_FILES_ACTION");
  plan.at = number("FAILING_FILES_AT", 0);
  plan.times = number("FAILING_FILES_TIMES", 1);
  plan.error_number = error_named(plan.action);
  plan.log = std::getenv("FAILING_FILES_LOG");
  return plan;
}

const Plan& plan() {
  static const Plan read = read_plan();
  return read;
}

bool is_listed(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    if (list.substr(0, comma) == word) return true;
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return false;
}

void write_log(long number, const char* call, const char* path) {
  if (plan().log == nullptr) return;
  char line[PATH_MAX + 100];
  const int length = std::snprintf(line, sizeof(line), "%d %ld %s %s\n", getpid(), number, call, path);
  const long fd = syscall(SYS_openat, AT_FDCWD, plan().log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (fd < 0) return;
  syscall(SYS_write, fd, line, static_cast<std::size_t>(length));
  syscall(SYS_close, fd);
}

void vanish() {
  char from[PATH_MAX], to[PATH_MAX + 8];
  std::snprintf(from, sizeof(from), "%.*s", static_cast<int>(plan().under.size()), plan().under.data());
  std::snprintf(to, sizeof(to), "%s.gone", from);
  syscall(SYS_renameat, AT_FDCWD, from, AT_FDCWD, to);
}

// Counts the call and returns the action for it.
Action decide(const char* call, const char* path) {
  static std::atomic<long> count = 0;
  if (plan().under.empty() || !std::string_view(path).starts_with(plan().under)) return Action::none;
  if (!plan().calls.empty() && !is_listed(plan().calls, call)) return Action::none;
  const int saved_errno = errno;
  const long number = ++count;
  write_log(number, call, path);
  const bool disturbed = plan().at > 0 && number >= plan().at && number - plan().at < plan().times;
  if (disturbed && plan().action == "kill") syscall(SYS_kill, getpid(), SIGKILL);
  if (disturbed && plan().action == "stop") syscall(SYS_kill, getpid(), SIGSTOP);
  if (disturbed && plan().action == "vanish") vanish();
  if (disturbed && plan().action == "exit") syscall(SYS_exit_group, 0);
  if (disturbed && plan().action == "slow") {
    const timespec pause{4, 0};
    syscall(SYS_nanosleep, &pause, nullptr);
  }
  while (disturbed && plan().action == "hang") syscall(SYS_pause);
  errno = saved_errno;
  if (disturbed && plan().action == "short") return Action::cut_short;
  if (!disturbed || plan().error_number == 0) return Action::none;
  errno = plan().error_number;
  return Action::fail;
}

using PathBuffer = char[2 * PATH_MAX + 2];

// Returns the path of a call with a folder's descriptor.
const char* path_at(int folder, const char* path, PathBuffer& buffer) {
  if (path[0] == '/' || folder == AT_FDCWD) return path;
  char link[64], base[PATH_MAX];
  std::snprintf(link, sizeof(link), "/proc/self/fd/%d", folder);
  const long length = syscall(SYS_readlinkat, AT_FDCWD, link, base, sizeof(base) - 1);
  if (length < 0) return path;
  base[length] = '\0';
  if (path[0] == '\0') {
    std::memcpy(buffer, base, static_cast<std::size_t>(length) + 1);
  } else {
    std::snprintf(buffer, sizeof(buffer), "%.4096s/%.4096s", base, path);
  }
  return buffer;
}

Action decide_at(const char* call, int folder, const char* path) {
  if (plan().under.empty()) return Action::none;
  PathBuffer buffer;
  return decide(call, path_at(folder, path, buffer));
}
Action decide_fd(const char* call, int fd) { return decide_at(call, fd, ""); }

int open_at(int folder, const char* path, int flags, mode_t mode) {
  if (decide_at("open", folder, path) == Action::fail) return -1;
  return static_cast<int>(syscall(SYS_openat, folder, path, flags, mode));
}

mode_t mode_of(int flags, va_list rest) {
  return (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(rest, mode_t) : 0;
}

std::size_t taken(Action action, std::size_t bytes) {
  return action == Action::cut_short && bytes > 1 ? bytes / 2 : bytes;
}

ssize_t write_at(int fd, const void* bytes, std::size_t size, off_t offset) {
  const Action action = decide_fd("pwrite", fd);
  if (action == Action::fail) return -1;
  return syscall(SYS_pwrite64, fd, bytes, taken(action, size), offset);
}

// Counted only if named, since they are frequent.
int look_at(const char* path, struct stat* facts) {
  if (is_listed(plan().calls, "lstat") && decide("lstat", path) == Action::fail) return -1;
  return static_cast<int>(syscall(SYS_newfstatat, AT_FDCWD, path, facts, AT_SYMLINK_NOFOLLOW));
}
ssize_t read_at(int fd, void* bytes, std::size_t size, off_t offset) {
  if (is_listed(plan().calls, "pread") && decide_fd("pread", fd) == Action::fail) return -1;
  return syscall(SYS_pread64, fd, bytes, size, offset);
}

int reserve(int fd, int mode, off_t offset, off_t bytes) {
  if (decide_fd("fallocate", fd) == Action::fail) return -1;
  return static_cast<int>(syscall(SYS_fallocate, fd, mode, offset, bytes));
}

int resize(int fd, off_t bytes) {
  if (decide_fd("ftruncate", fd) == Action::fail) return -1;
  return static_cast<int>(syscall(SYS_ftruncate, fd, bytes));
}

int rename_at(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) {
  if (decide_at("rename", from_folder, from) == Action::fail) return -1;
  return static_cast<int>(syscall(SYS_renameat2, from_folder, from, to_folder, to, flags));
}

int remove_at(const char* call, int folder, const char* path, int flags) {
  if (decide_at(call, folder, path) == Action::fail) return -1;
  return static_cast<int>(syscall(SYS_unlinkat, folder, path, flags));
}

}  // namespace

#define RONDO_OPEN(name, folder_parameter, folder)              \
  int name(folder_parameter const char* path, int flags, ...) { \
    va_list rest;                                               \
    va_start(rest, flags);                                      \
    const mode_t mode = mode_of(flags, rest);                   \
    va_end(rest);                                               \
    return open_at(folder, path, flags, mode);                  \
  }
#define RONDO_COMMA ,

extern "C" {
RONDO_OPEN(open, , AT_FDCWD)
RONDO_OPEN(open64, , AT_FDCWD)
RONDO_OPEN(openat, int folder RONDO_COMMA, folder)
RONDO_OPEN(openat64, int folder RONDO_COMMA, folder)
int creat(const char* path, mode_t mode) {
  return open_at(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}

ssize_t write(int fd, const void* bytes, std::size_t size) {
  const Action action = decide_fd("write", fd);
  if (action == Action::fail) return -1;
  return syscall(SYS_write, fd, bytes, taken(action, size));
}
ssize_t pwrite(int fd, const void* bytes, std::size_t size, off_t offset) {
  return write_at(fd, bytes, size, offset);
}
ssize_t pread(int fd, void* bytes, std::size_t size, off_t offset) {
  return read_at(fd, bytes, size, offset);
}
ssize_t pread64(int fd, void* bytes, std::size_t size, off64_t offset) {
  return read_at(fd, bytes, size, offset);
}
ssize_t pwrite64(int fd, const void* bytes, std::size_t size, off64_t offset) {
  return write_at(fd, bytes, size, offset);
}

int lstat(const char* path, struct stat* facts) noexcept { return look_at(path, facts); }

int fsync(int fd) {
  return decide_fd("fsync", fd) == Action::fail ? -1 : static_cast<int>(syscall(SYS_fsync, fd));
}
int fdatasync(int fd) {
  return decide_fd("fdatasync", fd) == Action::fail ? -1 : static_cast<int>(syscall(SYS_fdatasync, fd));
}
int ftruncate(int fd, off_t bytes) noexcept { return resize(fd, bytes); }
int ftruncate64(int fd, off64_t bytes) noexcept { return resize(fd, bytes); }
int fallocate(int fd, int mode, off_t offset, off_t bytes) { return reserve(fd, mode, offset, bytes); }
int fallocate64(int fd, int mode, off64_t offset, off64_t bytes) { return reserve(fd, mode, offset, bytes); }
int posix_fallocate(int fd, off_t offset, off_t bytes) {
  return reserve(fd, 0, offset, bytes) == 0 ? 0 : errno;
}

int rename(const char* from, const char* to) noexcept { return rename_at(AT_FDCWD, from, AT_FDCWD, to, 0); }
int renameat(int from_folder, const char* from, int to_folder, const char* to) noexcept {
  return rename_at(from_folder, from, to_folder, to, 0);
}
int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) noexcept {
  return rename_at(from_folder, from, to_folder, to, flags);
}

int mkdirat(int folder, const char* path, mode_t mode) noexcept {
  if (decide_at("mkdir", folder, path) == Action::fail) return -1;
  return static_cast<int>(syscall(SYS_mkdirat, folder, path, mode));
}
int mkdir(const char* path, mode_t mode) noexcept { return mkdirat(AT_FDCWD, path, mode); }

int unlink(const char* path) noexcept { return remove_at("unlink", AT_FDCWD, path, 0); }
int rmdir(const char* path) noexcept { return remove_at("rmdir", AT_FDCWD, path, AT_REMOVEDIR); }
int unlinkat(int folder, const char* path, int flags) noexcept {
  return remove_at((flags & AT_REMOVEDIR) != 0 ? "rmdir" : "unlink", folder, path, flags);
}
int remove(const char* path) noexcept {
  const int as_file = unlink(path);
  return as_file == 0 || errno != EISDIR ? as_file : rmdir(path);
}
}  // extern "C"
