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

// Returns the last `most` events, e.g. "11:43:25 checkpoint: step 100, kind full". Validations are
// left out; they are curves.
std::vector<std::string> last_events(const RunRecord& run, std::size_t most);

// Returns an event's fields as text, without its time, name and nested fields.
std::string event_words(const nlohmann::ordered_json& event);

}  // namespace rondo
