// SIGTERM, SIGINT, SIGUSR1, SIGUSR2 and SIGHUP ask the run to end after the current step; a second SIGINT
// ends it now.
#pragma once

#include <optional>

namespace rondo {

void install_stop_signals();
// The signal that asked first, if one did.
std::optional<int> stop_requested();

}  // namespace rondo
