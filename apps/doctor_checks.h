// The checks of `rondo doctor`: each looks at one thing of this machine and says what it found.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace rondo {

enum class Health {
  ok,
  warning,  // training works, but something is worth changing
  absent,   // not here; only some uses need it
  missing,  // training on CPU cannot work without it
};

struct Finding {
  Health health = Health::ok;
  std::string subject;      // "memory"
  std::string detail;       // what is there, or what is wrong
  std::string advice = "";  // what to type; empty where all is well
};

// All checks, in the order in which they are printed. `program_folder` is where rondo-worker is expected,
// `working_folder` where data/corpus is. A worker that does not answer in time is killed.
std::vector<Finding> examine(const std::filesystem::path& program_folder,
                             const std::filesystem::path& working_folder, int worker_timeout_ms);

}  // namespace rondo
