// Shows a training run on one screen of a terminal.
#pragma once

#include <string>

#include "runs/run_record.h"

namespace rondo {

// Returns lines of at most `columns` (at least 24) characters: state, progress and time left, the
// last step, the curve of the loss, the last events.
std::string live_view(const RunRecord& run, int columns, bool color);

}  // namespace rondo
