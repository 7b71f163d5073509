#include "datasets/tokenizer/split/pattern.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "datasets/tokenizer/split/regex.h"
#include "datasets/tokenizer/split/unicode.h"
#include "support/utf8.h"
#include "tests/datasets/temp_folder.h"

using namespace rondo;
using Catch::Matchers::ContainsSubstring;

namespace {

// Returns the first match of the pattern in the text, in brackets; "none" without one.
std::string first_match(const std::string& pattern, std::string_view text) {
  RegexScratch scratch;
  const Regex::Match match = Regex(pcre2_pattern(pattern, "f.json"), "f.json").search(text, 0, scratch);
  return match.found ? "[" + std::string(text.substr(match.begin, match.end - match.begin)) + "]" : "none";
}

std::string refusal(const std::string& pattern) {
  return data_error([&] { pcre2_pattern(pattern, "f.json: at"); });
}

bool contains(const CodePointSet& set, char32_t c) {
  for (const CodePointRange& range : set)
    if (c >= range.first && c <= range.last) return true;
  return false;
}

}  // namespace

TEST_CASE("the lists have the code points of Unicode 16, independent of the system") {
  CHECK(kUnicodeVersion == "16.0");
  CHECK(contains(unicode_category("L"), U'a'));
  CHECK(contains(unicode_category("Lu"), U'Ǆ'));
  CHECK_FALSE(contains(unicode_category("Lu"), U'ǆ'));
  CHECK(contains(unicode_category("Nd"), 0x10D40));  // GARAY DIGIT ZERO, new in 16
  CHECK_FALSE(contains(unicode_category("L"), 0x10D40));
  CHECK_FALSE(contains(unicode_set("spaces"), 0x180E));  // not a space since Unicode 6.3
  CHECK(unicode_category("Xx").empty());
  CHECK(unicode_category("Cs").empty());
}

TEST_CASE("a set and its complement are all code points except the surrogates") {
  for (const char* name : {"L", "Lu", "N", "P", "S", "M", "C"}) {
    std::size_t count = 0;
    for (const CodePointSet& set : {unicode_category(name), complement(unicode_category(name))})
      for (const CodePointRange& range : set) count += range.last - range.first + 1;
    CHECK(count == 0x110000 - 0x800);
  }
}

TEST_CASE("escapes keep their meaning outside and inside classes, negated and not") {
  CHECK(first_match(R"(\p{Lu}+)", "abÄÖc") == "[ÄÖ]");
  CHECK(first_match(R"(\P{L}+)", "ab12-c") == "[12-]");
  CHECK(first_match(R"(\S+)", "\u3000é\u2003") == "[é]");
  CHECK(first_match(R"([\s\d]+)", "a \u0663\t1b") == "[ \u0663\t1]");
  CHECK(first_match(R"([^\s\p{L}\p{N}]+)", "a1 -!\u00A0") == "[-!]");
  CHECK(first_match(R"([^\S]+)", "a \u180E") == "[ ]");
  CHECK(first_match(R"([a\-z]+)", "b-za") == "[-za]");
  CHECK(first_match(R"([-az-]+)", "b-za") == "[-za]");
  CHECK(first_match(R"([\]\[]+)", "a[]") == "[[]]");
  CHECK(first_match("[一-龥]+", "a一龥龦") == "[一龥]");
  CHECK(first_match(R"(\u0041\.)", "AxA.") == "[A.]");
  CHECK(first_match(R"(\v)", "\n\x0B") == "[\x0B]");
  CHECK(first_match("a.b", "a\nba\rb") == "[a\rb]");
  CHECK(first_match(R"(\s+(?!\S))", "a   b") == "[  ]");
  CHECK(first_match(R"(a++b?+(?>c|cd)(?:x){2})", "aabcxx") == "[aabcxx]");
}

TEST_CASE("a class may have scripts, nested classes and intersections") {
  CHECK(first_match(R"(\p{Han}+)", "ab\u4E2D\u6587\u3042") == "[\u4E2D\u6587]");
  CHECK(first_match(R"([\p{L}&&[^\p{Han}]]+)", "\u4E2Dab\u3042\u6587") == "[ab\u3042]");
  CHECK(first_match(R"([^\p{L}&&[^\p{Han}]]+)", "ab\u4E2D1\u3042") == "[\u4E2D1]");
  CHECK(first_match("[a-f&&c-z&&[^d]]+", "abcdefg") == "[c]");
  CHECK(first_match("[a[xy]c]+", "bacyz") == "[acy]");
  CHECK(first_match("[0-9-a]+", "b0-a9") == "[0-a9]");
  CHECK(first_match("x[a&&b]|y", "xaxby") == "[y]");
}

TEST_CASE("a caret negates a property, and characters may be written as codes") {
  CHECK(first_match(R"(\p{^L}+)", "ab12c") == "[12]");
  CHECK(first_match(R"(\P{^L}+)", "12ab3") == "[ab]");
  CHECK(first_match(R"([\p{^Han}z]+)", "\u4E2Dabz\u6587") == "[abz]");
  CHECK(first_match(R"(\x41\x{42}\x{1F600}\u0043)", "AB\U0001F600C") == "[AB\U0001F600C]");
  CHECK(first_match(R"([\x41-\x{43}]+)", "zABCD") == "[ABC]");
}

TEST_CASE("a code that is no character is refused, and a refusal names whole characters") {
  CHECK_THAT(refusal(R"(\xe9)"),
             ContainsSubstring("\"\\xe9\" at byte 0 of the regular expression is a byte and no "
                               "character; write \\x{e9}"));
  CHECK_THAT(refusal(R"(\x{D800})"),
             ContainsSubstring("\"\\x{D800}\" at byte 0") && ContainsSubstring("surrogate"));
  CHECK_THAT(refusal(R"(\x{110000})"), ContainsSubstring("is beyond U+10FFFF"));
  for (const char* pattern : {R"(\x)", R"(\xg1)", R"(\x{})", R"(\x{41)", R"(\x{41 42})", R"(\x{000000041})"})
    CHECK_THAT(refusal(pattern), ContainsSubstring("is not supported; write \\x41, \\x{41} or \\u0041"));
  CHECK_THAT(refusal("(?i:\u00E9)"),
             ContainsSubstring("\"\u00E9\" at byte 4 of the regular expression is not supported "
                               "in a case-insensitive group, which may have ASCII letters"));
}

TEST_CASE("a case-insensitive class folds single letters") {
  CHECK(first_match("'(?i:[sdmt]|ll|ve|re)", "x'\u017F") == "['\u017F]");
  CHECK(first_match("'(?i:[sdmt]|ll|ve|re)", "x'VE") == "['VE]");
}

TEST_CASE("a case-insensitive group matches the long s") {
  CHECK(first_match("(?i:'s|'ll)", "x'\u017F") == "['\u017F]");
  CHECK(first_match("(?i:'s|'ll)", "x'lL") == "['lL]");
  CHECK(first_match("(?i:a)b", "AB") == "none");
}

TEST_CASE("a dollar is the end of a line, and a plus after an interval repeats it") {
  CHECK(first_match("a+$", "aab aa\naaa") == "[aa]");
  CHECK(first_match(R"(\s++$)", "a  b ") == "[ ]");
  CHECK(first_match("a{2}+b", "aaaaab") == "[aaaab]");
  CHECK(first_match("a{1,3}+b", "aaaaab") == "[aaaaab]");
  CHECK(first_match("c(?:a(b)?){1,2}+c", "cabaabac") == "[cabaabac]");
}

TEST_CASE("a boundary of words is between a letter, mark, digit or connector and anything else") {
  CHECK(first_match(R"(\d{1,3}(?=(?:\d{3})*\b))", "x12345678 ") == "[12]");
  CHECK(first_match(R"(\d{1,3}(?=(?:\d{3})*\b))", "1234x") == "none");
  CHECK(first_match(R"(1\b.)", "1\u00B2 1\u0301 1_ 1\u24B6 1\u200D") == "[1\u200D]");
}

TEST_CASE("what the two engines read differently is refused with its name and offset") {
  CHECK_THAT(refusal(R"(a\w)"),
             ContainsSubstring("f.json: at: \"\\w\" at byte 1 of the regular expression is not supported"));
  CHECK_THAT(refusal(R"(\p{Elvish})"),
             ContainsSubstring("\"\\p{Elvish}\"") && ContainsSubstring("general category"));
  CHECK_THAT(refusal("[a[:digit:]]"), ContainsSubstring("\"[:\" at byte 2"));
  for (const char* pattern :
       {R"(\W)",  R"(\B)",      R"([\b])", R"(\h)",     R"(\R)",     R"(\X)",  R"(\A)",   R"(\z)",
        R"(\1)",  R"(\x4)",     R"(\p)",   R"(\p{^})",  R"(\u12)",   "^a",     "a{,2}",   "a{1,2}++",
        "a{2}+?", "a{2}?",      "{",       "(?<n>a)",   "(?i)a",     "(?m:a)", "(?#x)",   "(*UTF)",
        "[]a]",   "[&&b]",      "[a&&]",   R"([\s-z])", R"([a-\s])", "[ab",    "(?i:ss)", "(?i:sT)",
        "(?i:é)", "(?i:[a-c])", "(?i:a+)", "\\"})
    CHECK_THAT(refusal(pattern), ContainsSubstring("f.json: at: "));
}

TEST_CASE("an invalid pattern is refused with its place") {
  CHECK_THAT(data_error([] { Regex("(a", "f.json: at"); }),
             ContainsSubstring("f.json: at: the regular expression does not"));
}

TEST_CASE("a pattern is refused before its classes take much memory") {
  std::string pattern;
  for (int i = 0; i < 100'000; ++i) pattern += "\\p{L}";
  CHECK_THAT(data_error([&] { pcre2_pattern(pattern, "f.json: at"); }),
             ContainsSubstring("is too large, with the code points of its classes"));
}

TEST_CASE("backtracking is bounded by the length of the text, and a long run of blanks is split") {
  RegexScratch scratch;
  const Regex endless("(x+x+)+y|(a+a+)+b", "f.json: at");
  CHECK_THAT(data_error([&] { endless.search(std::string(2000, 'a'), 0, scratch); }),
             ContainsSubstring("match limit exceeded"));
  const Regex blanks("\\s+(?!\\S)|\\s+", "f.json: at");
  const std::size_t length = 20'000'000;
  CHECK(blanks.search(std::string(length, ' ') + "a", 0, scratch).end == length - 1);
}

TEST_CASE("a search that exceeds the engine's limits is an error, not an endless loop") {
  const Regex regex("(?:a*)*b|(a|aa)+$", "f.json: at");
  RegexScratch scratch;
  CHECK_THAT(data_error([&] { regex.search(std::string(40, 'a') + "c", 0, scratch); }),
             ContainsSubstring("cannot split a text of 41 bytes"));
}
