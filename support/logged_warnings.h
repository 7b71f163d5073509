// The warnings of the log, for a run folder.
#pragma once

#include <string>
#include <vector>

namespace rondo {

// Returns what log_warning has logged since the last call; of more than 100 warnings the first.
// Thread-safe.
std::vector<std::string> take_logged_warnings();

}  // namespace rondo
