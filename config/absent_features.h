// Lists what Rondo does not do, and what to do instead, for `rondo help WORD` and docs/features.md.
#pragma once

#include <span>
#include <string_view>
#include <vector>

namespace rondo {

struct AbsentFeature {
  std::string_view name;                // "Fine-tuning"
  std::vector<std::string_view> words;  // in lower case, that people search for
  std::string_view answer;              // Markdown: commands are in backticks
};

std::span<const AbsentFeature> absent_features();

}  // namespace rondo
