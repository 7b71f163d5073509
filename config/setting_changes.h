// Settings as lines, "optimizer.lr = 0.0008": which of two lists differ. Ranks compare theirs so, and a run
// that resumes its own with those of the checkpoint.
#pragma once

#include <string>
#include <vector>

namespace rondo {

struct SettingChange {
  std::string key;
  std::string before, now;  // as TOML; "not set" where the list has no such key
};

// By key. Texts of files may be among them: nothing is assumed about a line.
std::vector<SettingChange> changed_settings(const std::vector<std::string>& before,
                                            const std::vector<std::string>& now);

}  // namespace rondo
