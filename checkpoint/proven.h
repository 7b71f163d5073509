// Which checkpoints this process knows to be whole, so that none is hashed twice. Any thread may call.
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
  // `folder` was just written by this process and its ranks, which hashed every byte.
  void add(const std::filesystem::path& folder);
  // Whether it is known, and no file of it has changed since, as far as stat tells.
  bool holds(const std::filesystem::path& folder) const;
  // What is wrong with it, or "": hashes every byte unless holds() already. Means nothing where `stop` was
  // requested meanwhile.
  std::string problem_of(const std::filesystem::path& folder, const std::stop_token& stop = {});

 private:
  // Of a file: inode, bytes, nanoseconds of its last change and of that of its inode.
  using Facts = std::tuple<std::uint64_t, std::int64_t, std::int64_t, std::int64_t>;
  using Files = std::map<std::string, Facts>;
  static Files files_of(const std::filesystem::path& folder);

  mutable std::mutex mutex_;
  std::map<std::filesystem::path, Files> known_;
};

}  // namespace rondo::checkpoint
