#include "config/schema/parameter_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "config/schema/bucket_patterns.h"
#include "support/text/numbers.h"

namespace rondo {
namespace {

constexpr double kMax = 1e6;

// Stores a setting such as "weight_decay=0" in the group. Returns false if `word` is not a setting.
bool take_setting(const std::string& word, ParameterGroup& group) {
  const std::size_t equals = std::min(word.find('='), word.size() - 1);
  const std::string_view name = std::string_view(word).substr(0, equals);
  if (word == "optimizer=AdamW") return group.by_adamw = true;
  const std::optional<double> value = number_in(std::string_view(word).substr(equals + 1), 0.0, kMax);
  if (!value) return false;
  if (name == "lr_factor") return group.lr_factor = *value, true;
  if (name == "weight_decay") return group.weight_decay = *value, true;
  return false;
}

}  // namespace

std::vector<ParameterGroup> read_parameter_groups(const std::vector<std::string>& entries,
                                                  std::string* rule) {
  std::vector<ParameterGroup> groups;
  std::string broken;
  for (const std::string& entry : entries) {
    const std::size_t colon = std::min(entry.find(':'), entry.size());
    ParameterGroup group;
    for (const Bucket& bucket : read_buckets({entry.substr(0, colon)}, &broken))
      group.names.insert(group.names.end(), bucket.names.begin(), bucket.names.end());
    if (!broken.empty()) break;
    std::istringstream settings(colon < entry.size() ? entry.substr(colon + 1) : "");
    std::size_t count = 0;
    for (std::string word; settings >> word; ++count)
      if (!take_setting(word, group))
        broken = fmt::format(
            "must give weight_decay=NUMBER or lr_factor=NUMBER, at least 0, or optimizer=AdamW, but \"{}\" "
            "has \"{}\"",
            entry, word);
    if (count == 0)
      broken = fmt::format("must hold entries like *norm*: weight_decay=0, but \"{}\" is not one", entry);
    if (!broken.empty()) break;
    groups.push_back(std::move(group));
  }
  if (rule != nullptr) *rule = broken;
  return groups;
}

std::size_t group_of(const std::vector<ParameterGroup>& groups, std::string_view parameter) {
  const auto has = [&](const ParameterGroup& group) {
    return std::any_of(group.names.begin(), group.names.end(),
                       [&](const std::string& name) { return names_parameter(name, parameter); });
  };
  return static_cast<std::size_t>(std::find_if(groups.begin(), groups.end(), has) - groups.begin());
}

}  // namespace rondo
