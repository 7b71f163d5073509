// The checks of `rondo doctor`. Each inspects one property of this machine.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace rondo {

enum class Health {
  ok,
  warning,  // training works, but a change would help
  absent,   // not installed; only some uses need it
  missing,  // training on CPU cannot work without it
};

struct Finding {
  Health health = Health::ok;
  std::string subject;      // "memory"
  std::string detail;       // state, or what is wrong
  std::string advice = "";  // command to run; empty if nothing is wrong
};

// Runs all checks, in printing order. `program_folder` should have rondo-worker, `working_folder`
// data/corpus. Kills a worker that does not answer in time.
std::vector<Finding> examine(const std::filesystem::path& program_folder,
                             const std::filesystem::path& working_folder, int worker_timeout_ms);

}  // namespace rondo
