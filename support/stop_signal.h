// SIGTERM, SIGINT, SIGUSR1, SIGUSR2 and SIGHUP request the run to end after the current step. A
// second SIGINT ends it at once.
#pragma once

#include <optional>

namespace rondo {

void install_stop_signals();
// Returns the first signal that was received, if any.
std::optional<int> stop_requested();

}  // namespace rondo
