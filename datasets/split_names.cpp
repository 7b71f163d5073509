#include "datasets/split_names.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <utility>

namespace rondo {
namespace {

constexpr std::array<std::pair<std::string_view, bool>, 10> kSplits = {{
    // whether it is held out
    {"train", false},
    {"training", false},
    {"validation", true},
    {"valid", true},
    {"val", true},
    {"dev", true},
    {"test", true},
    {"testing", true},
    {"eval", true},
    {"evaluation", true},
}};

// Returns the split of `name`'s first word; null if the word is no split.
const std::pair<std::string_view, bool>* split_of(std::string_view name) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  const auto end = std::find_if_not(name.begin(), name.end(), is_letter);
  const std::string_view word = name.substr(0, static_cast<std::size_t>(end - name.begin()));
  const auto split =
      std::find_if(kSplits.begin(), kSplits.end(), [&](const auto& s) { return s.first == word; });
  return split == kSplits.end() ? nullptr : split;
}

}  // namespace

std::string warn_of_splits(std::string_view entry, const std::vector<SourceFile>& files) {
  namespace fs = std::filesystem;
  std::map<std::string_view, std::int64_t> counts;
  bool has_held_out = false;
  std::string training;  // a path of its files
  for (const SourceFile& file : files) {
    const fs::path path(file.path), id(file.id);
    const auto* split = split_of(path.filename().string());
    fs::path of_split = path.parent_path();
    if (split != nullptr) of_split /= std::string(split->first) + "*";
    for (fs::path folder = id.parent_path(); split == nullptr && !folder.empty();
         folder = folder.parent_path()) {
      split = split_of(folder.filename().string());
      if (split == nullptr) of_split = of_split.parent_path();
    }
    if (split == nullptr) continue;
    ++counts[split->first];
    has_held_out |= split->second;
    if (!split->second && training.empty()) training = of_split.string();
  }
  if (training.empty() || !has_held_out) return "";
  std::vector<std::string> splits;
  for (const auto& [name, count] : counts) splits.push_back(fmt::format("{} {}", count, name));
  return fmt::format(
      "data path \"{}\": files of several splits are read as one: {}. To read one split, name its files, "
      "such as \"{}\"",
      entry, fmt::join(splits, ", "), training);
}

}  // namespace rondo
