// A configuration as text: the resolved TOML, and the fingerprint made of it.
#pragma once

#include <string>
#include <vector>

#include "config/schema/job_config.h"

namespace rondo {

// Every key with its value, in the order of the sections, with all sizes of the model. Runnable: reading it
// back gives an equal config, but for job.config_file, which is not written.
std::string to_toml(const JobConfig& config);

// The same, and behind each value where it came from: a place in a file, a flag, the flavor, or the default.
std::string to_annotated_toml(const JobConfig& config);

// What is set, in the same order: the full key ("optimizer.lr"), and the value as TOML writes it.
struct Setting {
  std::string key, value;
};
std::vector<Setting> settings_of(const JobConfig& config);

// 32 hex digits (XXH3, 128 bits) over all keys but the [job] section: runs that differ in folder and
// description alone have the same.
std::string fingerprint(const JobConfig& config);

// The value of a full key ("training.steps", "model.dim"); std::monostate where it is unset or no key.
FieldValue value_at(const JobConfig& config, const std::string& key);

bool operator==(const JobConfig& a, const JobConfig& b);

}  // namespace rondo
