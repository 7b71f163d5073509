// A retry starts from an empty file, because pages whose fsync failed may be dropped from the cache
// without having been written. A retried rename first checks whether the earlier attempt succeeded.
// A durable file is written under another name, synced and renamed, and then its folder is synced.
#include "checkpoint/files.h"

#include <cerrno>
#include <chrono>
#include <thread>

#include "support/files/atomic_file.h"

namespace rondo::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr int kRetries = 5;
constexpr std::chrono::milliseconds kFirstPause{100};

}  // namespace

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

std::optional<struct stat> facts_of(const fs::path& path) {
  std::optional<struct stat> facts;
  with_retries([&] {
    struct stat info {};
    if (::lstat(path.c_str(), &info) == 0)
      facts = info;
    else if (errno != ENOENT && errno != ENOTDIR)
      throw FileError("look at", path, errno, kUse);
  });
  return facts;
}

std::vector<fs::path> paths_in(const fs::path& folder) {
  std::vector<fs::path> paths;
  with_retries([&] {
    paths.clear();
    std::error_code error;
    for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
      paths.push_back(at->path());
    if (error && error != std::errc::no_such_file_or_directory)
      throw FileError("list", folder, error.value(), kUse);
  });
  return paths;
}

void make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw FileError("create", folder, error.value(), kUse);
  if (!fs::is_directory(folder, error)) throw FileError("create", folder, ENOTDIR, kUse);
}

void remove_tree(const fs::path& folder) {
  std::error_code error;
  fs::remove_all(folder, error);
  if (error) throw FileError("remove", folder, error.value(), kUse);
}

void rename_path(const fs::path& from, const fs::path& to) {
  bool again = false;
  with_retries([&] {
    std::error_code ignored;
    // A network file system may rename and still report an error.
    if (again && !fs::exists(from, ignored) && fs::exists(to, ignored)) return;
    again = true;
    rename_file(from, to, kUse);
  });
}

void write_durably(const fs::path& file, std::string_view text) {
  with_retries([&] { replace_file(file, text, kUse); });
}

std::string read_text(const fs::path& file, std::int64_t limit) {
  std::string text;
  with_retries([&] { text = read_file(file, limit, kUse); });
  return text;
}

}  // namespace rondo::checkpoint
