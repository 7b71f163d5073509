#include "trainer/run/compare_ranks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <sstream>

#include "support/error.h"
#include "trainer/config/dump.h"
#include "trainer/config/setting_changes.h"

namespace rondo {
namespace {

// Every node may have its own copy; the data's fingerprint is compared instead.
constexpr std::array<std::string_view, 8> kPaths = {
    "training.dataset_path",        "training.datasets",       "training.tokenizer",
    "training.token_cache",         "validation.dataset_path", "model.hf_assets_path",
    "checkpoint.initial_load_path", "metrics.prometheus_file"};
constexpr std::size_t kShown = 5;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

}  // namespace

std::vector<std::string> settings_to_compare(const JobConfig& config, const std::vector<std::string>& more) {
  std::vector<std::string> settings;
  for (const auto& [key, value] : settings_of(config))
    if (!key.starts_with("job.") && std::find(kPaths.begin(), kPaths.end(), key) == kPaths.end())
      settings.push_back(key + " = " + value);
  settings.insert(settings.end(), more.begin(), more.end());
  return settings;
}

std::string describe_settings(const std::string& rank_0, const std::string& other, int rank) {
  std::vector<std::string> different;
  for (const SettingChange& change : changed_settings(lines_of(rank_0), lines_of(other)))
    different.push_back(
        fmt::format("{} is {} on rank 0 and {} on rank {}", change.key, change.before, change.now, rank));
  const std::size_t rest = different.size() - std::min(different.size(), kShown);
  different.resize(different.size() - rest);
  return fmt::format(
      "ranks were started with different settings: {}{}. Start all ranks with the same "
      "configuration, data and program",
      fmt::join(different, "; "), rest > 0 ? fmt::format("; and {} more", rest) : "");
}

std::string describe_collectives(const std::string& step, const std::string& rank_0, const std::string& other,
                                 int rank) {
  const std::vector<std::string> a = lines_of(rank_0), b = lines_of(other);
  const auto first = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  return fmt::format(
      "ranks 0 and {} would call different collectives in {}; the first that differs: \"{}\" and \"{}\"",
      rank, step, first.first == a.end() ? "" : *first.first, first.second == b.end() ? "" : *first.second);
}

void compare_settings(const std::vector<std::string>& settings, ProcessGroups& groups) {
  if (const auto odd = groups.first_other_text("settings", fmt::format("{}", fmt::join(settings, "\n"))))
    throw Error(ExitCode::config, describe_settings(odd->text_of_rank_0, odd->text, odd->rank));
}

void compare_collectives(const std::vector<const CompiledStep*>& steps, ProcessGroups& groups) {
  for (const CompiledStep* step : steps) {
    const std::string& name = step->function().name;
    if (const auto odd = groups.first_other_text("collectives/" + name, step->collective_sequence()))
      throw Error(ExitCode::graph, describe_collectives(name, odd->text_of_rank_0, odd->text, odd->rank));
  }
}

}  // namespace rondo
