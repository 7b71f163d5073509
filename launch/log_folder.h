// Chooses where the logs and the error files of this node's ranks are written.
#pragma once

#include <optional>
#include <string>

#include "launch/options.h"
#include "launch/output.h"
#include "launch/rendezvous/messages.h"
#include "support/files/folder_lock.h"

namespace rondo::launch {

class LogFolder {
 public:
  // `private_folder`: for error files if no logs are kept. Both references must outlive this.
  LogFolder(const LaunchOptions& options, std::string private_folder, Output& output);

  // Creates and locks the folder of this node. Called before every attempt; all attempts share it.
  // Throws Error(environment) if the folder cannot be written, or if another launcher writes there.
  void open(const Start& start);

  // REQUIRES: open().
  const std::string& logs() const { return logs_; }      // is not created if no logs are kept
  const std::string& errors() const { return errors_; }  // the same, or the private folder

 private:
  const LaunchOptions& options_;
  const std::string private_folder_;
  Output& output_;
  std::string root_;  // --log-dir, or a temporary folder; empty: no logs are kept
  std::string logs_, errors_;
  std::optional<FolderLock> lock_;
};

}  // namespace rondo::launch
