// Walks over the pattern once, copies what both engines read equally, and rewrites or refuses the
// rest. Anything not known to be equal is refused, since wrong words would go unnoticed. Unicode
// classes become explicit lists, so the engine's Unicode version does not matter. A stack records
// for each open group whether it is case-insensitive. Only letters with the same folding in both
// engines are allowed there.
#include "datasets/tokenizer/split/pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <vector>

#include "datasets/tokenizer/split/unicode.h"
#include "support/error.h"
#include "support/utf8.h"

namespace rondo {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_punctuation(char c) { return c == ' ' || std::ispunct(static_cast<unsigned char>(c)); }

// Limit of the rewritten pattern. A class takes up to ten kilobytes, and engines compile no
// larger patterns.
constexpr std::size_t kMaxBytes = 4 << 20;

// Walks over the pattern and writes the new one.
class Rewriter {
 public:
  Rewriter(std::string_view pattern, const std::string& place) : pattern_(pattern), place_(place) {}

  std::string run() {
    while (at_ < pattern_.size()) {
      if (std::string_view("*+?{").find(peek()) == std::string_view::npos) repeated_ = out_.size();
      if (caseless())
        caseless_item();
      else
        item();
      if (out_.size() > kMaxBytes) refuse(0, "is too large, with the code points of its classes");
    }
    return std::move(out_);
  }

 private:
  bool caseless() const { return !groups_.empty() && groups_.back().caseless; }
  std::string_view rest() const { return pattern_.substr(at_); }
  char peek(std::size_t ahead = 0) const {
    return at_ + ahead < pattern_.size() ? pattern_[at_ + ahead] : '\0';
  }
  void copy(std::size_t bytes) {
    out_ += pattern_.substr(at_, bytes);
    at_ += bytes;
  }

  // Names whole characters.
  [[noreturn]] void refuse(std::size_t length, const std::string& why) const {
    while (at_ + length < pattern_.size() && (pattern_[at_ + length] & 0xC0) == 0x80) ++length;
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
        return close_group();
      case '{':
        return interval();
      case '.':
        out_ += "[^\\n]", ++at_;
        return;
      case '$':
        out_ += "(?![^\\n])", ++at_;  // at the end of a line
        return;
      case '^':
        refuse(1, "is not supported");
      default:
        return copy(utf8_length(rest()));
    }
  }

  // Oniguruma folds some pairs of letters with one other character: ss and U+00DF, st and U+FB06,
  // ff, fi, fl. They are refused.
  void caseless_item() {
    const char c = peek(), next = peek(1);
    if (c == ')') return close_group();
    if (c == '[') return caseless_class();
    if (!is_letter(c) && c != '\'' && c != '|')
      refuse(1, "is not supported in a case-insensitive group, which may have ASCII letters, ' and |");
    const char a = static_cast<char>(std::tolower(c)), b = static_cast<char>(std::tolower(next));
    const bool folds =
        (a == 's' && (b == 's' || b == 't')) || (a == 'f' && (b == 'f' || b == 'i' || b == 'l'));
    if (folds) refuse(2, "is not supported in a case-insensitive group");
    copy(1);
  }

  // A class of letters, e.g. [sdmt]. Both engines fold a letter in a class with single characters
  // only.
  void caseless_class() {
    std::size_t length = 1;
    while (is_letter(peek(length))) ++length;
    if (length == 1 || peek(length) != ']')
      refuse(length + 1, "is not supported in a case-insensitive group");
    copy(length + 1);
  }

  void open_group() {
    for (const std::string_view opening : {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:"}) {
      if (!rest().starts_with(opening)) continue;
      groups_.push_back({opening == "(?i:", out_.size()});
      return copy(opening.size());
    }
    if (peek(1) == '?' || peek(1) == '*') refuse(4, "is not supported");
    groups_.push_back({false, out_.size()});
    copy(1);
  }

  void close_group() {
    if (!groups_.empty()) {
      repeated_ = groups_.back().begin;
      groups_.pop_back();
    }
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
    const bool repeats = peek(i) == '+';  // (?:x{1,3})+, where PCRE2 reads a possessive repeat
    if ((repeats && (peek(i + 1) == '+' || peek(i + 1) == '?')) || (peek(i) == '?' && !comma))
      refuse(i + 1, "is not supported");
    if (repeats) out_.insert(repeated_, "(?:");
    copy(i);
    if (repeats) out_ += ")+", ++at_;
  }

  static CodePointSet property(std::string_view name) {
    const bool is_script = name.size() > 2 && name[0] >= 'A' && name[0] <= 'Z';
    return is_script ? unicode_set(name) : unicode_category(name);
  }

  // Reads the class that an escape names, e.g. \p{L}, and advances past it. Returns false if the
  // escape names no class.
  bool set_escape(CodePointSet& set) {
    const char letter = peek(1);
    bool negated = letter == 'P' || letter == 'S' || letter == 'D';
    std::size_t length = 2;
    if (letter == 's' || letter == 'S') {
      set = unicode_set("spaces");
    } else if (letter == 'd' || letter == 'D') {
      set = unicode_category("Nd");
    } else if (letter == 'p' || letter == 'P') {
      const std::size_t end = rest().find('}');
      length = end == std::string_view::npos ? 2 : end + 1;
      const bool has_not = peek(3) == '^';  // \p{^L} is \P{L}
      if (has_not) negated = !negated;
      if (peek(2) == '{' && length > 3) set = property(rest().substr(3, length - 4).substr(has_not ? 1 : 0));
      if (set.empty())
        refuse(length, "is not a general category of Unicode or a script; other classes are not supported");
    } else {
      return false;
    }
    at_ += length;
    if (negated) set = complement(set);
    return true;
  }

  // Reads an escape of `before` bytes, a hexadecimal code of `digits` digits, and `after` bytes.
  char32_t coded_character(std::size_t before, std::size_t digits, std::size_t after) {
    const std::string_view code_text = rest().substr(std::min(before, rest().size()), digits);
    const bool is_hexadecimal =
        code_text.size() == digits && std::all_of(code_text.begin(), code_text.end(), [](char c) {
          return std::isxdigit(static_cast<unsigned char>(c)) != 0;
        });
    if (!is_hexadecimal || digits == 0 || digits > 8)
      refuse(2, "is not supported; write \\x41, \\x{41} or \\u0041");
    const unsigned long code = std::stoul(std::string(code_text), nullptr, 16);
    const std::size_t length = before + digits + after;
    if (code >= 0xD800 && code <= 0xDFFF) refuse(length, "is a surrogate");
    if (code > 0x10FFFF) refuse(length, "is beyond U+10FFFF");
    if (code > 0x7F && digits == 2 && after == 0)
      refuse(length, fmt::format("is a byte and no character; write \\x{{{}}}", code_text));
    at_ += length;
    return static_cast<char32_t>(code);
  }

  // Reads an escape of one character.
  char32_t character_escape() {
    const char letter = peek(1);
    if (letter == 'u') return coded_character(2, 4, 0);
    if (letter == 'x' && peek(2) == '{')
      return coded_character(3, std::min<std::size_t>(rest().find('}'), 12) - 3, 1);
    if (letter == 'x') return coded_character(2, 2, 0);
    char32_t character = static_cast<unsigned char>(letter);
    if (constexpr std::string_view kLetters = "nrtfv"; kLetters.find(letter) != kLetters.npos)
      character = U"\n\r\t\f\v"[kLetters.find(letter)];
    else if (!is_punctuation(letter))
      refuse(2, "is not supported");
    at_ += 2;
    return character;
  }

  // Oniguruma's words are those of Rust without the joiners, and with the superscripts and
  // fractions of Latin-1.
  void word_boundary() {
    const CodePointSet joiners = {{0x200C, 0x200D}};
    const CodePointSet latin = {{0xB2, 0xB3}, {0xB9, 0xB9}, {0xBC, 0xBE}};
    const std::string word =
        "[" + class_text(unite(intersect(unicode_set("words"), complement(joiners)), latin)) + "]";
    out_ += fmt::format("(?:(?<={0})(?!{0})|(?<!{0})(?={0}))", word);
    at_ += 2;
  }

  void escape() {
    if (peek(1) == 'b') return word_boundary();
    CodePointSet set;
    if (set_escape(set)) {
      out_ += "[" + class_text(set) + "]";
    } else {
      const char32_t character = character_escape();
      out_ += class_text({{character, character}});
    }
  }

  // A dash stands for itself at the beginning and the end of a class.
  bool is_range_dash() const {
    return peek() == '-' && peek(1) != ']' && peek(1) != '[' && !rest().starts_with("-&&");
  }

  char32_t class_character() {
    if (peek() == '\\') return character_escape();
    const char32_t character = utf8_character(rest());
    at_ += utf8_length(rest());
    return character;
  }

  void add(CodePointSet& set, const CodePointSet& more) { set = unite(std::move(set), more); }

  // Reads one member of a class: a set, a range or a character.
  void class_member(CodePointSet& members, bool is_first) {
    CodePointSet set;
    if (rest().starts_with("[:"))
      refuse(2, "is not supported; write \\p{L}, \\s or another class in its place");
    if (peek() == '[') return add(members, class_set());
    if (peek() == '\\' && set_escape(set)) {
      if (is_range_dash()) refuse(2, "after a class is not supported; write a literal dash as \\-");
      return add(members, set);
    }
    if (!is_first && rest().starts_with("-[")) refuse(2, "is not supported; write a literal dash as \\-");
    const bool after_range = !is_first && is_range_dash();  // [0-9-a] is [0-9\-a]
    const char32_t first = class_character();
    char32_t last = first;
    if (!after_range && is_range_dash()) {
      ++at_;
      if (peek() == '\\' && set_escape(set)) refuse(1, "after a dash and a class is not supported");
      last = class_character();
      if (last < first) refuse(1, "follows a range that is empty");
    }
    add(members, {{first, last}});
  }

  // Reads a class, with nested classes and intersections (&&), which bind less than anything else.
  CodePointSet class_set() {
    const std::size_t begin = at_;
    if (++depth_ > kMaxNested) refuse(1, "is nested too deeply");
    ++at_;
    const bool negated = peek() == '^';
    if (negated) ++at_;
    if (peek() == ']') refuse(1, "at the beginning of a class is not supported; write \\]");
    CodePointSet members;
    std::optional<CodePointSet> others;  // the intersection of the sets before the last &&
    for (bool is_first = true; at_ < pattern_.size() && peek() != ']'; is_first = false) {
      if (!rest().starts_with("&&")) {
        class_member(members, is_first);
        continue;
      }
      if (is_first) refuse(2, "begins a class");
      at_ += 2;
      if (peek() == ']' || rest().starts_with("&&")) refuse(1, "follows an intersection");
      others = others ? intersect(*others, members) : members;
      members.clear();
    }
    if (at_ >= pattern_.size()) {
      at_ = begin;
      refuse(1, "begins a class that never ends");
    }
    ++at_;
    --depth_;
    if (others) members = intersect(*others, members);
    return negated ? complement(members) : members;
  }

  void character_class() {
    const std::size_t begin = at_;
    const CodePointSet set = class_set();
    // The engine tests a short list and a negation faster than the long list of all others.
    const CodePointSet rest_of_all = complement(set);
    const bool negate = pattern_[begin + 1] == '^' && !rest_of_all.empty();
    if (set.empty())
      out_ += "(?!)";
    else
      out_ += (negate ? "[^" : "[") + class_text(negate ? rest_of_all : set) + "]";
  }

  static constexpr int kMaxNested = 20;
  std::string_view pattern_;
  const std::string& place_;
  std::size_t at_ = 0;
  std::string out_;
  struct OpenGroup {
    bool caseless;      // case-insensitive
    std::size_t begin;  // in out_
  };
  int depth_ = 0;                  // of open classes
  std::size_t repeated_ = 0;       // in out_: the item that a quantifier here would repeat
  std::vector<OpenGroup> groups_;  // those that are open
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
