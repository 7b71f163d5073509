// The known name nearest to a misspelt one, for "did you mean" in errors about keys, flags, passes
// and models.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rondo {

// Returns the Damerau-Levenshtein distance (optimal string alignment), case-insensitive.
int edit_distance(std::string_view a, std::string_view b);

// Returns the nearest candidate, the first of equally near ones. Only distances of at most max(1, a
// third of the longer word) count.
std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& candidates);

// Returns " (did you mean X?)", or "" if no candidate is near.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace rondo
