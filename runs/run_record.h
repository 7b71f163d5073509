// All that a run folder says, for people to read: a run that still trains is read, too, up to its last whole
// line.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "runs/read_run.h"

namespace rondo {

struct RunRecord {
  RunLog log;
  std::vector<nlohmann::ordered_json> events;  // of events.jsonl; lines that are no objects are left out
  std::vector<nlohmann::ordered_json> expert_loads;  // of expert_load.jsonl
  nlohmann::ordered_json environment;                // of env.json; null where there is none
  nlohmann::ordered_json exit;                       // of exit.json; null while the run trains

  // "finished", "ended with 8: step 7: loss is not finite ...", "no exit.json: it trains, or was killed".
  std::string state() const;
  // Fields of the last event of this name, or null.
  nlohmann::ordered_json event(std::string_view name) const;
  // As in config.toml without quotes; "" where the key is not there.
  std::string setting(const std::string& key) const;
  // "replay", "interpreter", "eager"; "" without a config.toml.
  std::string executor() const;
};

// The object that a text is; null where it is none. `json_object_in`: the text of a file.
nlohmann::ordered_json json_object(const std::string& text);
nlohmann::ordered_json json_object_in(const std::filesystem::path& file);
// A string without its quotes, anything else as JSON.
std::string text_of_json(const nlohmann::ordered_json& value);

// Errors are those of read_run.
RunRecord read_record(const std::filesystem::path& folder);

// How the runs are told apart: their folders without what all have in common, "runs/a/outputs" and
// "runs/b/outputs" are "a/outputs" and "b/outputs".
std::vector<std::string> short_names(const std::vector<RunRecord>& runs);

}  // namespace rondo
