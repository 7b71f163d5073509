#include "datasets/tokenizer/split/automaton.h"

#include <catch2/catch_test_macros.hpp>
#include <random>

#include "datasets/tokenizer/split/pattern.h"
#include "datasets/tokenizer/split/splitter.h"
#include "support/error.h"
#include "support/utf8.h"
#include "tests/datasets/tokenizer/published_patterns.h"

using namespace rondo;

namespace {

using Random = std::mt19937;

template <class List>
const auto& any_of(const List& list, Random& random) {
  return list[random() % std::size(list)];
}

// Words of the engine; a NUL between them.
std::string split_text(const Splitter& splitter, std::string_view text) {
  RegexScratch scratch;
  std::string pieces;
  splitter.split(text, /*is_first=*/true, scratch, [&](std::span<const std::string_view> words) {
    for (const std::string_view word : words) pieces += word, pieces += '\0';
  });
  return pieces;
}

SplitStage stage_of(std::string_view pattern, SplitBehavior behavior = SplitBehavior::isolated,
                    bool invert = false) {
  return {.pattern = pcre2_pattern(pattern, "test"), .place = "test", .behavior = behavior, .invert = invert};
}

bool has_automaton(std::string_view pattern) {
  return Automaton::compile(pcre2_pattern(pattern, "test")).has_value();
}

// Text with what patterns look at: words of letters of every kind, contractions, digits, runs of
// spaces and line ends, and any code point.
std::string random_text(Random& random, int most_pieces) {
  static const std::vector<std::string> kPieces = {"a",
                                                   "b",
                                                   "word",
                                                   "Word",
                                                   "WORD",
                                                   "camelCase",
                                                   "supercalifragilisticexpialidocious",
                                                   "'s",
                                                   "'S",
                                                   "'ll",
                                                   "'LL",
                                                   "'re",
                                                   "'\u017F",
                                                   "'",
                                                   "\u212A",
                                                   " ",
                                                   " ",
                                                   " ",
                                                   " ",
                                                   "  ",
                                                   "   ",
                                                   "                    ",
                                                   "\n",
                                                   "\n\n",
                                                   "\r\n",
                                                   "\r",
                                                   "\t",
                                                   "\v",
                                                   "\u00A0",
                                                   "\u3000",
                                                   "\u2028",
                                                   "\u0085",
                                                   "0",
                                                   "12",
                                                   "345",
                                                   "6789",
                                                   "\u0663",
                                                   "\u2155",
                                                   ".",
                                                   ",",
                                                   "!?",
                                                   "...",
                                                   "--",
                                                   "(",
                                                   "\"",
                                                   "_",
                                                   "/",
                                                   "//",
                                                   "$",
                                                   "\u20AC",
                                                   "<|end|>",
                                                   "\u00E9",
                                                   "\u00DF",
                                                   "\u0130",
                                                   "\u01C5",
                                                   "\u02B0",
                                                   "\u0301",
                                                   "\u4E2D\u6587",
                                                   "\u3042\u30AB",
                                                   "\uAC00",
                                                   "\u0430\u0431",
                                                   "\u0915\u093F",
                                                   "\u0E01",
                                                   "\U0001F600",
                                                   "\U00020000",
                                                   "\U000E0041",
                                                   "x",
                                                   "y",
                                                   "z",
                                                   "ab",
                                                   "ba"};
  std::string text;
  for (int i = static_cast<int>(random() % most_pieces); i >= 0; --i) {
    if (random() % 8 != 0) {
      text += any_of(kPieces, random);
      continue;
    }
    char32_t character = random() % (random() % 2 == 0 ? 0x3000 : 0x110000);
    if (character >= 0xD800 && character <= 0xDFFF) character = U'\uFFFD';
    append_utf8(character, text);
  }
  return text;
}

// A pattern of the syntax that pattern.h accepts.
std::string random_pattern(Random& random, int depth) {
  static const std::vector<std::string> kSets = {"a",         "b", "[ab]",      "[^a]",     R"(\s)",
                                                 R"(\S)",     " ", R"(\p{L})",  R"(\p{N})", R"([^\s\p{L}])",
                                                 R"([\r\n])", ".", R"(\p{Lu})", "[^a-y]",   "\u00E9"};
  static const std::vector<std::string> kRepeats = {"*",  "+",  "?",   "*?",    "+?",   "??",    "*+",
                                                    "++", "?+", "{2}", "{1,3}", "{2,}", "{1,2}?"};
  if (depth == 0) return any_of(kSets, random);
  switch (random() % 8) {
    case 0:
    case 1:
      return random_pattern(random, depth - 1) + random_pattern(random, depth - 1);
    case 2:
      return "(?:" + random_pattern(random, depth - 1) + "|" + random_pattern(random, depth - 1) + ")";
    case 3:
      return "(?:" + random_pattern(random, depth - 1) + ")" + any_of(kRepeats, random);
    case 4:
      return any_of(kSets, random) + any_of(kRepeats, random);
    case 5:
      return random_pattern(random, depth - 1) + (random() % 2 == 0 ? "(?!" : "(?=") + any_of(kSets, random) +
             ")";
    case 6:
      return random_pattern(random, depth - 1) + "(?i:'s|a|k)?";
    default:
      return random_pattern(random, depth - 1);
  }
}

}  // namespace

TEST_CASE("the published patterns have automata, and split random texts as PCRE2 does") {
  Random random(1);
  for (const auto& [name, patterns] : published_patterns()) {
    INFO(name);
    std::vector<SplitStage> stages;
    for (const std::string& pattern : patterns) {
      CHECK(has_automaton(pattern));
      stages.push_back(stage_of(pattern));
    }
    const Splitter fast(stages), reference(stages, TokenizerEngine::reference);
    for (int i = 0; i < 1000; ++i) {
      const std::string text = random_text(random, i % 100 == 0 ? 2000 : 30);
      if (split_text(fast, text) == split_text(reference, text)) continue;
      FAIL_CHECK("\"" << text << "\"");
      break;
    }
  }
}

TEST_CASE("a random pattern splits texts as PCRE2 does") {
  Random random(2);
  int with_automaton = 0;
  for (int i = 0; i < 1000; ++i) {
    std::string pattern = random_pattern(random, 3);
    for (int more = static_cast<int>(random() % 3); more > 0; --more)
      pattern += "|" + random_pattern(random, 3);
    INFO(pattern);
    const auto behavior = random() % 2 == 0 ? SplitBehavior::isolated : SplitBehavior::removed;
    const std::vector<SplitStage> stages = {stage_of(pattern, behavior, random() % 2 == 0)};
    const Splitter fast(stages), reference(stages, TokenizerEngine::reference);
    with_automaton += fast.uses_automata() ? 1 : 0;
    for (int text_number = 0; text_number < 20; ++text_number) {
      const std::string text = random_text(random, 12);
      std::string expected;
      try {
        expected = split_text(reference, text);
      } catch (const Error&) {  // too much backtracking
        break;
      }
      if (split_text(fast, text) == expected) continue;
      FAIL_CHECK("\"" << text << "\"");
      break;
    }
  }
  CHECK(with_automaton > 400);
}

TEST_CASE("what an automaton cannot decide is left to PCRE2") {
  for (const char* pattern : {"a(?!bc)", "(?<=a)b", "(?<!a)b", "(?>a|ab)c", "(?:ab)++", "(?:a*)+b", "a*",
                              "(?:a|b?)", R"(a(?=\s|b))"})
    CHECK_FALSE(has_automaton(pattern));
  for (const char* pattern : {"a(?![bc])", "(?:a|ab)c", "[ab]++c", "(?:a?)?b", "a(?!)|b", "a(?=)"})
    CHECK(has_automaton(pattern));
}

TEST_CASE("a pattern with too many states is left to PCRE2") {
  CHECK(has_automaton("(?:a|b){1,40}c"));
  CHECK_FALSE(has_automaton("[ab]*a[ab]{30}"));
  CHECK_FALSE(has_automaton("(?:a{100}){100}"));
}
