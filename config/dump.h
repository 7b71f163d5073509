// A configuration as text: the resolved TOML and its fingerprint.
#pragma once

#include <string>
#include <vector>

#include "config/schema/job_config.h"

namespace rondo {

// Writes every key with its value, in the order of the sections, with all sizes of the model.
// Reading the text gives an equal config except for job.config_file, which is not written.
std::string to_toml(const JobConfig& config);

// Writes the same, with the origin of each value: a place in a file, a flag, the flavor, or the
// default.
std::string to_annotated_toml(const JobConfig& config);

// A key that is set ("optimizer.lr"), and its value as TOML.
struct Setting {
  std::string key, value;
};
std::vector<Setting> settings_of(const JobConfig& config);

// Returns 32 hex digits (XXH3, 128 bits) over all keys except [job]. Runs that differ only in
// folder and description have equal fingerprints.
std::string fingerprint(const JobConfig& config);

// Returns the value of a full key ("training.steps", "model.dim"), or std::monostate if it is unset
// or unknown.
FieldValue value_at(const JobConfig& config, const std::string& key);

bool operator==(const JobConfig& a, const JobConfig& b);

}  // namespace rondo
