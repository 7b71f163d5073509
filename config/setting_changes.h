// Lists of settings, as lines such as "optimizer.lr = 0.0008": their differences and their
// configuration. Ranks compare their lists, and a run compares its list with a checkpoint's.
#pragma once

#include <string>
#include <vector>

#include "config/schema/job_config.h"

namespace rondo {

struct SettingChange {
  std::string key;
  std::string before, now;  // as TOML; "not set" if the list lacks the key
};

// Returns the differences in the order of keys. Accepts any text in a line, as some come from
// files.
std::vector<SettingChange> changed_settings(const std::vector<std::string>& before,
                                            const std::vector<std::string>& now);

// Returns the configuration that the lines name, without sizes of the model. Leaves out lines that
// are no setting of this version; their keys have the defaults.
JobConfig config_of_settings(const std::vector<std::string>& settings);

}  // namespace rondo
