#include "datasets/tokenizer/split/unicode.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <unordered_map>

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

// Returns the numbers of a text, each of which a space follows.
std::vector<std::int64_t> numbers_of(std::string_view text) {
  std::vector<std::int64_t> numbers;
  for (const char* at = text.data(); at != text.data() + text.size(); ++at)
    at = std::from_chars(at, text.data() + text.size(), numbers.emplace_back()).ptr;
  return numbers;
}

std::unordered_map<char32_t, char32_t> read_lowercase() {
  std::unordered_map<char32_t, char32_t> lowercase;
  const std::vector<std::int64_t> numbers = numbers_of(kUnicodeLowercase);
  for (std::size_t i = 0; i + 3 < numbers.size(); i += 4)
    for (std::int64_t c = numbers[i]; c <= numbers[i + 1]; c += numbers[i + 2])
      lowercase.emplace(static_cast<char32_t>(c), static_cast<char32_t>(c + numbers[i + 3]));
  return lowercase;
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

CodePointSet unicode_set(std::string_view name) {
  CodePointSet set;
  const auto runs = std::find_if(kUnicodeSets.begin(), kUnicodeSets.end(),
                                 [&](const UnicodeSetRuns& candidate) { return candidate.name == name; });
  if (runs == kUnicodeSets.end()) return set;
  const std::vector<std::int64_t> lengths = numbers_of(runs->lengths);
  char32_t next = 0;
  for (std::size_t i = 0; i + 1 < lengths.size(); i += 2) {
    const char32_t first = next + static_cast<char32_t>(lengths[i]);
    next = first + static_cast<char32_t>(lengths[i + 1]);
    set.push_back({first, next - 1});
  }
  return set;
}

char32_t unicode_lowercase(char32_t character) {
  static const std::unordered_map<char32_t, char32_t> table = read_lowercase();
  const auto found = table.find(character);
  return found == table.end() ? character : found->second;
}

std::size_t last_character(std::string_view text) {
  std::size_t at = text.size() - 1;
  while ((static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
  return at;
}

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

CodePointSet intersect(const CodePointSet& a, const CodePointSet& b) {
  return complement(unite(complement(a), complement(b)));
}

std::string class_text(const CodePointSet& set) {
  std::string text;
  for (const CodePointRange& range : set) {
    text += fmt::format("\\x{{{:X}}}", static_cast<unsigned>(range.first));
    if (range.last > range.first) text += fmt::format("-\\x{{{:X}}}", static_cast<unsigned>(range.last));
  }
  return text;
}

CodePointBits::CodePointBits(const CodePointSet& set) : bits_(kLast + 1) {
  for (const CodePointRange& range : set)
    std::fill(bits_.begin() + range.first, bits_.begin() + range.last + 1, true);
}

}  // namespace rondo
