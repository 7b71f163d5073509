// Reads the whole content of a run folder. A run that is still training is read up to its last
// complete line.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "runs/read_run.h"
#include "runs/time_spent.h"

namespace rondo {

struct RunRecord {
  RunLog log;
  // From events.jsonl; lines that are not objects are left out. Of very many events, the earliest
  // are left out, and first of all those that a run repeats.
  std::vector<nlohmann::ordered_json> events;
  nlohmann::ordered_json expert_load;  // the last of expert_load.jsonl; null without one
  nlohmann::ordered_json environment;  // from env.json; null without it
  nlohmann::ordered_json exit;         // from exit.json; null without it
  EventTimes times = {};               // of all events
  double repeated_s = 0;               // in steps that a later start computed again
  double last_written_s = 0;           // when metrics.jsonl was, since the epoch

  static constexpr std::size_t kMaxEvents = 2000;
  // Adds a line of events.jsonl.
  void add_event(std::string_view line);

  // Returns "finished", "ended with 8: step 7: loss is not finite ...", "running", or "killed" for
  // a run of this machine whose rank 0 is gone without an exit.json.
  std::string state() const;
  // Returns whether the run has ended: exit.json exists, or rank 0 was a process of this machine
  // that has exited.
  bool has_ended() const;
  // Returns the last event of this name, or null.
  nlohmann::ordered_json event(std::string_view name) const;
  // Returns "llama3 8B", or the name alone for a model of own sizes; "" before the run says it.
  std::string model() const;
  // Returns a value of config.toml without quotes; "" if the key is missing.
  std::string setting(const std::string& key) const;
  // Returns "replay", "interpreter" or "eager"; "" without a config.toml.
  std::string executor() const;
};

// Returns the JSON object of a text, or of the content of a file, with printable keys and strings.
// Returns null if it is not an object. Throws Error(data) for what is no regular file, or too
// large.
nlohmann::ordered_json json_object(std::string_view text);
nlohmann::ordered_json json_object_in(const std::filesystem::path& file);
// Returns a string without quotes, and anything else as JSON.
std::string text_of_json(const nlohmann::ordered_json& value);

// Returns the seconds of the steps in metrics.superseded.jsonl; 0 without the file.
double repeated_seconds(const std::filesystem::path& folder);

// Reads a run folder. Throws as read_run.
RunRecord read_record(const std::filesystem::path& folder);

// Returns distinct short names: the folders without their common prefix. "runs/a/outputs" and
// "runs/b/outputs" become "a/outputs" and "b/outputs".
std::vector<std::string> short_names(const std::vector<RunRecord>& runs);

}  // namespace rondo
