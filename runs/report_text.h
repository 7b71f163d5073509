// Formats runs as text for a terminal: their state and curves.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runs/run_record.h"

namespace rondo {

// Returns the state and the curves of runs. REQUIRES: at least one run, and `columns` of at
// least 24.
std::string report_text(const std::vector<RunRecord>& runs, int columns, bool color);

// Returns the curve of one of quantities(), over all steps; "" without values.
std::string plot_of(std::string_view quantity, const RunRecord& run, int columns, bool color);

}  // namespace rondo
