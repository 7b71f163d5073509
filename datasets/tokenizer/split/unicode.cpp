#include "datasets/tokenizer/split/unicode.h"

#include <algorithm>

namespace rondo {
namespace {

constexpr char32_t kLast = 0x10FFFF, kFirstSurrogate = 0xD800, kLastSurrogate = 0xDFFF;

struct Run {
  std::string_view category;
  CodePointRange range;
};

// Returns the parsed table, which is read once.
const std::vector<Run>& category_runs() {
  static const std::vector<Run> table = [] {
    std::vector<Run> runs;
    char32_t next = 0;
    for (std::size_t i = 0; i < kUnicodeCategoryRuns.size();) {
      const std::string_view category = kUnicodeCategoryRuns.substr(i, 2);
      char32_t length = 0;
      for (i += 2; i < kUnicodeCategoryRuns.size() && kUnicodeCategoryRuns[i] <= '9'; ++i)
        length = length * 10 + static_cast<char32_t>(kUnicodeCategoryRuns[i] - '0');
      if (category != "Cs") runs.push_back({category, {next, next + length - 1}});
      next += length;
    }
    return runs;
  }();
  return table;
}

}  // namespace

CodePointSet unicode_category(std::string_view name) {
  CodePointSet set;
  if (name.empty() || name.size() > 2) return set;
  for (const auto& [category, range] : category_runs()) {
    if (!category.starts_with(name)) continue;
    if (!set.empty() && set.back().last + 1 == range.first)
      set.back().last = range.last;
    else
      set.push_back(range);
  }
  return set;
}

CodePointSet unicode_spaces() { return kUnicodeSpaces; }

CodePointSet unite(CodePointSet a, const CodePointSet& b) {
  const std::ptrdiff_t size_of_a = std::ssize(a);
  a.insert(a.end(), b.begin(), b.end());
  std::inplace_merge(a.begin(), a.begin() + size_of_a, a.end(),
                     [](const auto& x, const auto& y) { return x.first < y.first; });
  CodePointSet united;
  for (const CodePointRange& range : a) {
    if (!united.empty() && range.first <= united.back().last + 1)
      united.back().last = std::max(united.back().last, range.last);
    else
      united.push_back(range);
  }
  return united;
}

CodePointSet complement(const CodePointSet& set) {
  CodePointSet rest;
  char32_t next = 0;
  for (const CodePointRange& taken : unite(set, {{kFirstSurrogate, kLastSurrogate}})) {
    if (taken.first > next) rest.push_back({next, taken.first - 1});
    next = taken.last + 1;
  }
  if (next <= kLast) rest.push_back({next, kLast});
  return rest;
}

}  // namespace rondo
