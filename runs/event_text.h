// Events of a run as sentences.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runs/run_record.h"

namespace rondo {

// Returns what happened, with its step where it has one: "saved step 100 (full): 12.0 MiB in 1.2 s;
// training waited 0.1 s". An event of another name, or without a field of its sentence, is its name
// and its fields: "name: field value, ...". Nested fields are left out.
std::string event_sentence(const nlohmann::ordered_json& event);

struct TimedEvent {
  std::string time;  // as in the file: "2026-01-31T12:00:00.123Z"
  std::string sentence;
};

// Returns the last `most` events and, at the end, how the run ended if exit.json says so.
// Validations are left out if there are more than `most` events.
std::vector<TimedEvent> last_events(const RunRecord& run, std::size_t most);

}  // namespace rondo
