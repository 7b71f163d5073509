// The known name nearest to a misspelt one, for "did you mean" in errors about keys, flags, passes and
// models.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rondo {

// Damerau-Levenshtein distance with adjacent transpositions (optimal string alignment), case-insensitive.
int edit_distance(std::string_view a, std::string_view b);

// Of the candidates whose distance is at most a third of the longer word (and at least 1 is allowed), the
// first one with the smallest.
std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& candidates);

// " (did you mean X?)" or "" where nothing is near.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace rondo
