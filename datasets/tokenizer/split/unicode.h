// What regular expressions mean by \p{L}, \p{Lu}, \s and the like, as lists of code points. The lists are
// data of ours, asked from the package `tokenizers` (scripts/unicode_tables.py), because the Unicode version
// decides how text is split: the system's PCRE2 knows another one and differs in about ten thousand code
// points.
#pragma once

#include <string_view>
#include <vector>

namespace rondo {

struct CodePointRange {
  char32_t first, last;  // both included
};

// Sorted and apart from each other; never a surrogate.
using CodePointSet = std::vector<CodePointRange>;

extern const std::string_view kUnicodeVersion;
extern const std::vector<CodePointRange> kUnicodeSpaces;
// The general categories of all code points from U+0000 on: two letters and the length of the run, decimal.
extern const std::string_view kUnicodeCategoryRuns;

// A general category ("Lu") or all that begin with a letter ("L"). Empty if there is none of that name.
CodePointSet unicode_category(std::string_view name);
CodePointSet unicode_spaces();

CodePointSet unite(CodePointSet a, const CodePointSet& b);
CodePointSet complement(const CodePointSet& set);

}  // namespace rondo
