// Follows a growing run folder. Reads what was appended since the last call, each line once.
#pragma once

#include <filesystem>
#include <functional>
#include <string_view>

#include "runs/run_record.h"

namespace rondo {

class RunFollower {
 public:
  // Throws Error(data) if there is no such folder.
  explicit RunFollower(std::filesystem::path folder);

  // Returns the current state of the run; `log.steps` is empty before the first step. A new run in
  // the folder is followed from its beginning. Throws Error(data) for damaged lines, as read_run.
  const RunRecord& look();

  bool has_ended() const { return record_.has_ended(); }

 private:
  struct Place {
    std::filesystem::path file;
    std::int64_t offset = 0;  // of the first unread byte
    std::int64_t number = 0;  // of the last line that was read
  };
  // Calls `take` with each appended complete line and its number. Returns false if the file has
  // been replaced.
  static bool read_on(Place& place, const std::function<void(std::string_view, std::int64_t)>& take);
  void begin();

  std::filesystem::path folder_;
  Place metrics_, events_;
  std::int64_t step_ = -1;  // of the last line
  RunRecord record_;
};

}  // namespace rondo
