// A run folder that grows: what was appended since the last look is read, and nothing twice.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "runs/run_record.h"

namespace rondo {

class RunFollower {
 public:
  // Error(data) where there is no such folder.
  explicit RunFollower(std::filesystem::path folder);

  // What is there now; `log.lines` is empty before the first step. A new run that takes the folder is
  // followed from its beginning. Error(data) as read_run, for lines that are damaged.
  const RunRecord& look();

  // Nothing will be appended: there is an exit.json, or the process of rank 0 was on this machine and is
  // gone.
  bool has_ended() const;

 private:
  struct Place {
    std::filesystem::path file;
    std::int64_t offset = 0;  // of the first byte that was not read
    std::int64_t number = 0;  // of the last line that was
  };
  // Gives `take` each whole line that was appended, with its number. False: the file is another one now.
  static bool read_on(Place& place, const std::function<void(const std::string&, std::int64_t)>& take);
  void begin();

  std::filesystem::path folder_;
  Place metrics_, events_;
  RunRecord record_;
};

}  // namespace rondo
