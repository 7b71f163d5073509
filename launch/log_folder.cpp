#include "launch/log_folder.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "support/error.h"
#include "support/files/temporary_folder.h"

namespace rondo::launch {

LogFolder::LogFolder(const LaunchOptions& options, std::string private_folder, Output& output)
    : options_(options), private_folder_(std::move(private_folder)), output_(output) {}

// Chooses DIR/ID as torchrun does. Nodes may share DIR, so each of several nodes gets its own
// folder below it.
void LogFolder::open(const Start& start) {
  const bool keeps_logs = options_.redirects.any() || options_.tee.any();
  if (root_.empty() && !options_.log_dir.empty()) root_ = std::filesystem::absolute(options_.log_dir);
  if (root_.empty() && keeps_logs) {
    root_ = make_temporary_folder("rondo-logs");
    output_.say("the logs of the ranks are in " + root_);
  }
  logs_ = root_ + "/" + options_.run_id;
  if (start.nodes > 1) logs_ += fmt::format("/node_{}", start.node);
  errors_ = root_.empty() ? private_folder_ : logs_;
  if (root_.empty()) return;
  std::error_code failed;
  std::filesystem::create_directories(logs_, failed);
  if (failed || access(logs_.c_str(), W_OK) != 0)
    throw Error(ExitCode::environment, fmt::format("cannot write into {}: {}; choose another --log-dir",
                                                   logs_, failed ? failed.message() : std::strerror(errno)));
  if (!lock_) lock_ = FolderLock::take(logs_, FileUse::run);
  // The lock of a dead node's launcher lasts for a minute or two. Logs are only appended to.
  if (lock_ || !FolderLock::holder_elsewhere(logs_).empty()) return;
  throw Error(ExitCode::environment,
              fmt::format("the logs in {} are being written by another launcher that is still alive; choose "
                          "another --log-dir or --rdzv-id",
                          logs_));
}

}  // namespace rondo::launch
