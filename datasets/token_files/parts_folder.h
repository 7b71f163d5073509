// The folder of a tokenization that is under way: ".OUTPUT.parts" beside the output, with a file "job" that
// says what the parts were made from. It is locked while it is used, so that two processes do not write one
// output.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>

#include "support/files/folder_lock.h"

namespace rondo {

// `output`, or its file `number` of `count`: NAME-00001-of-00002.tokens. `count` 0: not cut, `output` itself.
std::string shard_name(const std::string& output, std::size_t number, std::size_t count);

class PartsFolder {
 public:
  // Makes or enters the folder. Parts of another job are removed. Throws Error: usage when there is no such
  // folder but an output (a finished one is not overwritten); environment when another process holds it;
  // resources or environment when it cannot be written.
  PartsFolder(const std::string& output, const std::string& job);
  PartsFolder(const PartsFolder&) = delete;
  PartsFolder& operator=(const PartsFolder&) = delete;

  std::string part(std::size_t number) const;
  void remove();

 private:
  std::filesystem::path folder_;
  std::optional<FolderLock> lock_;
};

}  // namespace rondo
