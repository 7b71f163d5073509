// Remembers which checkpoints this process has verified, so that none is hashed twice. Thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <stop_token>
#include <string>
#include <tuple>

namespace rondo::checkpoint {

class Proven {
 public:
  // Records that this process and its ranks have just written `folder` and hashed every byte.
  void add(const std::filesystem::path& folder);
  // Returns whether `folder` is verified and none of its files has changed since, according
  // to stat.
  bool holds(const std::filesystem::path& folder) const;
  // Returns the first problem of `folder`, or "". Hashes every byte unless holds(). The result has
  // no meaning if `stop` was requested during the call.
  std::string problem_of(const std::filesystem::path& folder, const std::stop_token& stop = {});

 private:
  // Inode, bytes, mtime and ctime in nanoseconds of a file.
  using Facts = std::tuple<std::uint64_t, std::int64_t, std::int64_t, std::int64_t>;
  using Files = std::map<std::string, Facts>;
  static Files files_of(const std::filesystem::path& folder);

  mutable std::mutex mutex_;
  std::map<std::filesystem::path, Files> known_;
};

}  // namespace rondo::checkpoint
