// The sets of code points that a tokenizer.json refers to: \p{L}, \p{Lu}, \s and the like in
// regular expressions, and those of pre-tokenizers and normalizers. The lists are generated from
// the package `tokenizers` (scripts/unicode_tables.py), because the Unicode version determines how
// text is split. The system's PCRE2 has another version and differs in about ten thousand code
// points.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rondo {

struct CodePointRange {
  char32_t first, last;  // inclusive
};

// Sorted and disjoint ranges without surrogates.
using CodePointSet = std::vector<CodePointRange>;

// A set as decimal lengths: code points outside of the set, within, outside, ...
struct UnicodeSetRuns {
  std::string_view name, lengths;
};

extern const std::string_view kUnicodeVersion;
extern const std::vector<UnicodeSetRuns> kUnicodeSets;
// Runs of code points with a lowercase: first, last, step and difference, as decimal numbers.
extern const std::string_view kUnicodeLowercase;
// The general categories of all code points from U+0000 on, as runs: two letters and the
// decimal length.
extern const std::string_view kUnicodeCategoryRuns;

// Returns a general category ("Lu") or all that begin with a letter ("L"). Empty for an
// unknown name.
CodePointSet unicode_category(std::string_view name);

// Returns a set of kUnicodeSets; empty for an unknown name:
//   spaces        White_Space
//   words         \w of Rust's regex
//   numbers       char::is_numeric of Rust
//   punctuation   of the pre-tokenizers Punctuation and BertPreTokenizer
//   marks         what StripAccents removes
//   normalizable  what NFC, NFD, NFKC or NFKD changes, reorders or composes
//   seconds       the second code points of pairs that NFC composes
//   Han, ...      a script
CodePointSet unicode_set(std::string_view name);

// Returns the lowercase of a code point as Rust's char::to_lowercase has it, except for U+0130.
char32_t unicode_lowercase(char32_t character);

// Returns the position of the last character of a text. REQUIRES: the text is valid UTF-8 and not
// empty.
std::size_t last_character(std::string_view text);

CodePointSet unite(CodePointSet a, const CodePointSet& b);
CodePointSet complement(const CodePointSet& set);
CodePointSet intersect(const CodePointSet& a, const CodePointSet& b);

// Returns the inside of a class of PCRE2, e.g. "\x{41}-\x{5A}".
std::string class_text(const CodePointSet& set);

// A set with constant-time lookup. 136 KiB.
class CodePointBits {
 public:
  explicit CodePointBits(const CodePointSet& set);
  bool contains(char32_t character) const { return bits_[character]; }
  void set(char32_t character, bool value) { bits_[character] = value; }

 private:
  std::vector<bool> bits_;
};

}  // namespace rondo
