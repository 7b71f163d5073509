#include "config/setting_changes.h"

#include <algorithm>
#include <map>

#include "config/read/assignment.h"
#include "config/schema/keys.h"

namespace rondo {

std::vector<SettingChange> changed_settings(const std::vector<std::string>& before,
                                            const std::vector<std::string>& now) {
  std::map<std::string, SettingChange> values;
  const auto read = [&](const std::vector<std::string>& lines, std::string SettingChange::*side) {
    for (const std::string& line : lines) {
      const std::string key = line.substr(0, line.find(" = "));
      SettingChange& value = values.try_emplace(key, SettingChange{key, "not set", "not set"}).first->second;
      value.*side = line.substr(std::min(key.size() + 3, line.size()));
    }
  };
  read(before, &SettingChange::before);
  read(now, &SettingChange::now);
  std::vector<SettingChange> changed;
  for (const auto& [key, value] : values)
    if (value.before != value.now) changed.push_back(value);
  return changed;
}

JobConfig config_of_settings(const std::vector<std::string>& settings) {
  JobConfig config;
  for (const std::string& line : settings) {
    Problems ignored;
    for (const Assignment& assignment : read_toml(line, "", ignored))
      for (const Section& section : sections()) {
        if (section.name != section_of(assignment.key)) continue;
        const Field* field = find_field(*section.fields, key_of(assignment.key));
        std::string rule;
        const FieldValue value = field == nullptr ? FieldValue() : read_value(assignment, *field, rule);
        if (field != nullptr && rule.empty()) field->set(section.in(config), value);
      }
  }
  return config;
}

}  // namespace rondo
