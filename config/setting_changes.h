// Differences between two lists of settings, as lines such as "optimizer.lr = 0.0008". Ranks
// compare their lists with it, and a resumed run compares its list with the checkpoint's.
#pragma once

#include <string>
#include <vector>

namespace rondo {

struct SettingChange {
  std::string key;
  std::string before, now;  // as TOML; "not set" if the list lacks the key
};

// Returns the differences in the order of keys. Accepts any text in a line, as some come from
// files.
std::vector<SettingChange> changed_settings(const std::vector<std::string>& before,
                                            const std::vector<std::string>& now);

}  // namespace rondo
