// The folder of an unfinished tokenization: ".OUTPUT.parts" next to the output. Its file "job"
// identifies the inputs of the parts. The folder is locked while it is in use, so that two
// processes do not write one output.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>

#include "support/files/folder_lock.h"

namespace rondo {

// Returns the name of file `number` of `count`, e.g. NAME-00001-of-00002.tokens; `output` for a
// `count` of 0.
std::string shard_name(const std::string& output, std::size_t number, std::size_t count);

class PartsFolder {
 public:
  // Creates or opens the folder, and removes the parts of another job. Throws Error: usage when the
  // output exists and the folder does not (a finished output is not overwritten); environment when
  // another process holds the lock; resources or environment when the folder cannot be written.
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
