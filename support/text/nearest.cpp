#include "support/text/nearest.h"

#include <algorithm>
#include <cctype>
#include <numeric>

namespace rondo {

namespace {

std::string lowered(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower;
}

// Rows i-2, i-1 and i of the distance table; reused for many words.
struct Rows {
  std::vector<std::size_t> before, last, row;
};

// Returns the distance of two lower-case words. If it exceeds `most`, returns any number above
// `most`.
std::size_t bounded_distance(std::string_view a, std::string_view b, std::size_t most, Rows& rows) {
  auto& [before, last, row] = rows;
  for (auto* table_row : {&before, &last, &row}) table_row->resize(b.size() + 1);
  std::iota(last.begin(), last.end(), std::size_t{0});
  std::size_t least_of_last = 0;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t least = row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
      least = std::min(least, row[j]);
    }
    // Later rows derive from this row, or by a swap from the one before.
    if (least > most && least_of_last >= most) return most + 1;
    least_of_last = least;
    std::swap(before, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

}  // namespace

int edit_distance(std::string_view a, std::string_view b) {
  Rows rows;
  return static_cast<int>(bounded_distance(lowered(a), lowered(b), a.size() + b.size(), rows));
}

std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string lower = lowered(word);
  Rows rows;
  const std::string* best = nullptr;
  std::size_t best_distance = 0;
  for (const std::string& candidate : candidates) {
    const std::size_t longer = std::max(word.size(), candidate.size());
    std::size_t most = std::max<std::size_t>(1, longer / 3);
    if (best != nullptr) most = std::min(most, best_distance - 1);
    // The distance is at least the difference of the lengths, so a very long word is skipped.
    if (longer - std::min(word.size(), candidate.size()) > most) continue;
    const std::size_t distance = bounded_distance(lower, lowered(candidate), most, rows);
    if (distance > most) continue;
    best = &candidate;
    best_distance = distance;
    if (distance == 0) break;
  }
  return best == nullptr ? std::nullopt : std::optional(*best);
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates) {
  const auto match = nearest(word, candidates);
  return match ? " (did you mean " + *match + "?)" : "";
}

}  // namespace rondo
