// The code points of \p{L}, \p{Lu}, \s and the like in regular expressions. The lists are generated
// from the package `tokenizers` (scripts/unicode_tables.py), because the Unicode version determines
// how text is split. The system's PCRE2 has another version and differs in about ten thousand
// code points.
#pragma once

#include <string_view>
#include <vector>

namespace rondo {

struct CodePointRange {
  char32_t first, last;  // inclusive
};

// Sorted and disjoint ranges without surrogates.
using CodePointSet = std::vector<CodePointRange>;

extern const std::string_view kUnicodeVersion;
extern const std::vector<CodePointRange> kUnicodeSpaces;
// The general categories of all code points from U+0000 on, as runs: two letters and the
// decimal length.
extern const std::string_view kUnicodeCategoryRuns;

// Returns a general category ("Lu") or all that begin with a letter ("L"). Empty for an
// unknown name.
CodePointSet unicode_category(std::string_view name);
CodePointSet unicode_spaces();

CodePointSet unite(CodePointSet a, const CodePointSet& b);
CodePointSet complement(const CodePointSet& set);

}  // namespace rondo
