// Walks over the pattern once, copies what both engines read equally, and rewrites or refuses the
// rest. Anything not known to be equal is refused, since wrong words would go unnoticed. Unicode
// classes become explicit lists, so the engine's Unicode version does not matter. A stack records
// for each open group whether it is case-insensitive. Only letters with the same folding in both
// engines are allowed there.
#include "datasets/tokenizer/split/pattern.h"

#include <fmt/format.h>

#include <cctype>
#include <vector>

#include "datasets/tokenizer/split/unicode.h"
#include "support/error.h"
#include "support/text/utf8.h"

namespace rondo {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_punctuation(char c) { return c == ' ' || std::ispunct(static_cast<unsigned char>(c)); }

std::string class_text(const CodePointSet& set) {
  std::string text;
  for (const CodePointRange& range : set) {
    text += fmt::format("\\x{{{:X}}}", static_cast<unsigned>(range.first));
    if (range.last > range.first) text += fmt::format("-\\x{{{:X}}}", static_cast<unsigned>(range.last));
  }
  return text;
}

// Limit of the rewritten pattern. A class takes up to ten kilobytes, and engines compile no
// larger patterns.
constexpr std::size_t kMostBytes = 4 << 20;

// Walks over the pattern and writes the new one.
class Rewriter {
 public:
  Rewriter(std::string_view pattern, const std::string& place) : pattern_(pattern), place_(place) {}

  std::string run() {
    while (at_ < pattern_.size()) {
      if (caseless())
        caseless_item();
      else
        item();
      if (out_.size() > kMostBytes) refuse(0, "is too large, with the code points of its classes");
    }
    return std::move(out_);
  }

 private:
  bool caseless() const { return !groups_.empty() && groups_.back(); }
  std::string_view rest() const { return pattern_.substr(at_); }
  char peek(std::size_t ahead = 0) const {
    return at_ + ahead < pattern_.size() ? pattern_[at_ + ahead] : '\0';
  }
  void copy(std::size_t bytes) {
    out_ += pattern_.substr(at_, bytes);
    at_ += bytes;
  }

  [[noreturn]] void refuse(std::size_t length, const std::string& why) const {
    throw Error(ExitCode::data, fmt::format("{}: \"{}\" at byte {} of the regular expression {}", place_,
                                            pattern_.substr(at_, length), at_, why));
  }

  void item() {
    switch (peek()) {
      case '\\':
        return escape();
      case '[':
        return character_class();
      case '(':
        return open_group();
      case ')':
        if (!groups_.empty()) groups_.pop_back();
        return copy(1);
      case '{':
        return interval();
      case '.':
        out_ += "[^\\n]", ++at_;
        return;
      case '^':
      case '$':
        refuse(1, "is not supported");
      default:
        return copy(utf8_length(rest()));
    }
  }

  // Oniguruma folds some pairs of letters with one other character: ss and U+00DF, st and U+FB06,
  // ff, fi, fl. They are refused.
  void caseless_item() {
    const char c = peek(), next = peek(1);
    if (c == ')') {
      groups_.pop_back();
      return copy(1);
    }
    if (!is_letter(c) && c != '\'' && c != '|') refuse(1, "is not supported in a case-insensitive group");
    const char a = static_cast<char>(std::tolower(c)), b = static_cast<char>(std::tolower(next));
    const bool folds =
        (a == 's' && (b == 's' || b == 't')) || (a == 'f' && (b == 'f' || b == 'i' || b == 'l'));
    if (folds) refuse(2, "is not supported in a case-insensitive group");
    copy(1);
  }

  void open_group() {
    for (const std::string_view opening : {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:"}) {
      if (!rest().starts_with(opening)) continue;
      groups_.push_back(opening == "(?i:");
      return copy(opening.size());
    }
    if (peek(1) == '?' || peek(1) == '*') refuse(4, "is not supported");
    groups_.push_back(false);
    copy(1);
  }

  void interval() {
    std::size_t i = 1;
    bool comma = false;
    while (is_digit(peek(i))) ++i;
    if (i > 1 && peek(i) == ',') {
      comma = true;
      for (++i; is_digit(peek(i));) ++i;
    }
    if (i == 1 || peek(i) != '}') refuse(i + 1, "is not supported; write a literal brace as \\{");
    ++i;
    if (peek(i) == '+' || (peek(i) == '?' && !comma)) refuse(i + 1, "is not supported");
    copy(i);
  }

  // Reads the class that an escape names, e.g. \p{L}, and advances past it. Returns false if the
  // escape names no class.
  bool set_escape(CodePointSet& set) {
    const char letter = peek(1);
    const bool negated = letter == 'P' || letter == 'S' || letter == 'D';
    std::size_t length = 2;
    if (letter == 's' || letter == 'S') {
      set = unicode_spaces();
    } else if (letter == 'd' || letter == 'D') {
      set = unicode_category("Nd");
    } else if (letter == 'p' || letter == 'P') {
      const std::size_t end = rest().find('}');
      length = end == std::string_view::npos ? 2 : end + 1;
      if (peek(2) == '{' && length > 3) set = unicode_category(rest().substr(3, length - 4));
      if (set.empty())
        refuse(length, "is not a general category of Unicode; other classes are not supported");
    } else {
      return false;
    }
    at_ += length;
    if (negated) set = complement(set);
    return true;
  }

  // Copies or rewrites an escape of one character.
  void character_escape() {
    const char letter = peek(1);
    if (letter == 'n' || letter == 'r' || letter == 't' || letter == 'f' || is_punctuation(letter))
      return copy(2);
    if (letter == 'v') {  // PCRE2's \v is a class
      out_ += "\\x{B}";
      at_ += 2;
      return;
    }
    std::size_t digits = 0;
    while (digits < 4 && std::isxdigit(static_cast<unsigned char>(peek(2 + digits)))) ++digits;
    if (letter != 'u' || digits != 4) refuse(2, "is not supported");
    out_ += fmt::format("\\x{{{}}}", rest().substr(2, 4));
    at_ += 6;
  }

  void escape() {
    CodePointSet set;
    if (set_escape(set))
      out_ += "[" + class_text(set) + "]";
    else
      character_escape();
  }

  void dash(bool& range_open, bool after_set, bool first) {
    const bool literal = first || peek(1) == ']';
    if (after_set && !literal) refuse(2, "after a class is not supported; write a literal dash as \\-");
    out_ += literal ? "\\-" : "-";
    range_open = !literal;
    ++at_;
  }

  // Named classes are collected and written at the end as one list; the order within a class has
  // no meaning.
  void character_class() {
    const std::size_t begin = at_;
    copy(peek(1) == '^' ? 2 : 1);
    CodePointSet sets, set;
    bool range_open = false, after_set = false, first = true;
    if (peek() == ']') refuse(1, "at the beginning of a class is not supported; write \\]");
    for (; at_ < pattern_.size() && peek() != ']'; first = false) {
      if (peek() == '[' || rest().starts_with("&&")) refuse(2, "within a class is not supported");
      if (peek() == '-') {
        dash(range_open, after_set, first);
        after_set = false;
        continue;
      }
      set.clear();
      after_set = peek() == '\\' && set_escape(set);
      if (after_set && range_open) refuse(1, "after a dash and a class is not supported");
      if (after_set)
        sets = unite(std::move(sets), set);
      else if (peek() == '\\')
        character_escape();
      else
        copy(utf8_length(rest()));
      range_open = false;
    }
    if (at_ == pattern_.size()) {
      at_ = begin;
      refuse(1, "begins a class that never ends");
    }
    out_ += class_text(sets);
    copy(1);
  }

  std::string_view pattern_;
  const std::string& place_;
  std::size_t at_ = 0;
  std::string out_;
  std::vector<bool> groups_;  // open groups: whether each is case-insensitive
};

}  // namespace

std::string pcre2_pattern(std::string_view pattern, const std::string& place) {
  return Rewriter(pattern, place).run();
}

std::string pcre2_literal(std::string_view text) {
  std::string pattern;
  for (std::size_t i = 0; i < text.size(); i += utf8_length(text.substr(i)))
    pattern += fmt::format("\\x{{{:X}}}", static_cast<unsigned>(utf8_character(text.substr(i))));
  return pattern;
}

}  // namespace rondo
