#include "support/text/nearest.h"

#include <algorithm>
#include <cctype>

namespace rondo {

int edit_distance(std::string_view a, std::string_view b) {
  const auto same = [](char x, char y) {
    return std::tolower(static_cast<unsigned char>(x)) == std::tolower(static_cast<unsigned char>(y));
  };
  const std::size_t width = b.size() + 1;
  std::vector<int> before(width), last(width), row(width);  // rows i-2, i-1 and i of the distance table
  for (std::size_t j = 0; j < width; ++j) last[j] = static_cast<int>(j);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = static_cast<int>(i);
    for (std::size_t j = 1; j < width; ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (same(a[i - 1], b[j - 1]) ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1]);
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string* best = nullptr;
  std::size_t best_distance = 0;
  for (const std::string& candidate : candidates) {
    // No distance is below the difference of lengths: a word of a megabyte costs nothing.
    const std::size_t longer = std::max(word.size(), candidate.size());
    const std::size_t least = longer - std::min(word.size(), candidate.size());
    if (least > std::max<std::size_t>(1, longer / 3) || (best != nullptr && least >= best_distance)) continue;
    const auto distance = static_cast<std::size_t>(edit_distance(word, candidate));
    if (best == nullptr || distance < best_distance) {
      best = &candidate;
      best_distance = distance;
    }
  }
  if (best == nullptr) return std::nullopt;
  const std::size_t allowed = std::max<std::size_t>(1, std::max(word.size(), best->size()) / 3);
  if (best_distance > allowed) return std::nullopt;
  return *best;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates) {
  const auto found = nearest(word, candidates);
  return found ? " (did you mean " + *found + "?)" : "";
}

}  // namespace rondo
