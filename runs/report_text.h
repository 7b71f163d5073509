// Runs as text for a terminal: how they stand, and their curves.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runs/run_record.h"

namespace rondo {

// REQUIRES: at least one run, `columns` of at least 24.
std::string report_text(const std::vector<RunRecord>& runs, int columns, bool color);

// The curve of one of quantities(), over all steps; "" where it has no value.
std::string plot_of(std::string_view quantity, const RunRecord& run, int columns, bool color);

// "11:43:25 checkpoint: step 100, kind full": the last `most` events, but for validations, which are curves.
std::vector<std::string> last_events(const RunRecord& run, std::size_t most);

// An event's fields in words, without its time and name; what is nested is left out.
std::string event_words(const nlohmann::ordered_json& event);

}  // namespace rondo
