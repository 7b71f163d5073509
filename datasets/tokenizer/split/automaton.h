// A regular expression as a deterministic automaton. Finds the matches that PCRE2 finds, in one
// pass and without backtracking.
//
// Characters have classes: two are of one class if every set of the pattern has both or neither. A
// state is the ordered list of instructions (pattern_program.h) at which a backtracking engine may
// go on; those after a match are cut off, because the engine prefers the match. A transition knows
// the next character. So a look-ahead at one character, and whether a match ends before that
// character, are decided by the transition.
//
// States in which runs of ASCII characters change nothing, e.g. the letters of a word, skip these
// runs sixteen bytes at a time.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "datasets/tokenizer/split/byte_run.h"
#include "datasets/tokenizer/split/pattern_program.h"

namespace rondo {

// Maps characters to classes, which are numbered from 0 on.
class CharacterClasses {
 public:
  static constexpr std::size_t kMaxSets = 64;
  static constexpr std::uint32_t kMax = 255;

  // REQUIRES at most kMaxSets sets. With more than kMax classes, only size() has a meaning.
  explicit CharacterClasses(const std::vector<CodePointSet>& sets);

  std::uint32_t size() const { return static_cast<std::uint32_t>(sets_of_.size()); }
  bool in_set(std::uint32_t a_class, std::int32_t set) const { return (sets_of_[a_class] >> set & 1) != 0; }
  // Returns the class of an ASCII character, size() for another byte.
  std::uint32_t of_byte(char byte) const { return of_byte_[static_cast<unsigned char>(byte)]; }

  // Returns the class of the character at `p` and advances past it. REQUIRES valid UTF-8.
  std::uint32_t take(const char*& p) const {
    const auto byte = [&](int i) { return std::uint32_t{static_cast<unsigned char>(p[i])}; };
    const auto low_bits = [&](int i) { return byte(i) & 0x3F; };
    const std::uint32_t first = byte(0);
    if (first < 0x80) return ++p, of_byte_[first];
    std::uint32_t character = 0;
    if (first < 0xE0) {
      character = (first & 0x1F) << 6 | low_bits(1), p += 2;
    } else if (first < 0xF0) {
      character = (first & 0x0F) << 12 | low_bits(1) << 6 | low_bits(2), p += 3;
    } else {
      character = (first & 0x07) << 18 | low_bits(1) << 12 | low_bits(2) << 6 | low_bits(3), p += 4;
    }
    return pages_[page_of_[character / kPage]][character % kPage];
  }

 private:
  static constexpr std::size_t kPage = 128;
  using Page = std::array<std::uint8_t, kPage>;

  std::vector<std::uint64_t> sets_of_;  // by class: bit i says that set i has it
  std::array<std::uint8_t, 256> of_byte_{};
  std::vector<std::uint16_t> page_of_;
  std::vector<Page> pages_;  // distinct
};

// Immutable. Any thread may use it.
class Automaton {
 public:
  // Returns nullopt for a pattern without a program, or with too many classes or states.
  static std::optional<Automaton> compile(std::string_view pcre2_pattern);

  // Selects the pieces of a text: its matches, the text between them, or both.
  enum class Wanted : std::uint8_t { matches, gaps, all };
  // Writes the next pieces of `rest` that are wanted to `pieces` and returns their number. Removes
  // from `rest` what it has split: all of it, unless `pieces` is full or has one place left.
  // REQUIRES: `rest` is valid UTF-8, and pieces.size() > 1.
  std::size_t split(std::string_view& rest, Wanted wanted, std::span<std::string_view> pieces) const;

 private:
  friend class AutomatonBuilder;
  explicit Automaton(CharacterClasses classes) : classes_(std::move(classes)) {}

  template <class Run>
  const char* match_from(std::uint32_t entry, const char* before, const char* p, const char* end,
                         const AsciiSet& word_letters) const;
  template <class Run>
  const char* match_at(const char* p, const char* end, const AsciiSet& word_letters, RunWindow& window) const;
  template <class Run>
  std::size_t split_with(std::string_view& rest, Wanted wanted, std::span<std::string_view> pieces) const;
  std::size_t split_by_sixteen(std::string_view& rest, Wanted wanted,
                               std::span<std::string_view> pieces) const;

  // A run of ASCII characters in which a state does not change.
  struct Skip {
    AsciiSet set;
    bool is_match = false;  // before each of its characters a match may end
  };
  // An entry has the row of the next state << 8, the number of its Skip << 1, and whether a match
  // ends before the character. Row 0 and Skip 0 are none.
  static constexpr std::uint32_t kIsMatch = 1, kSkip = 0xFE;
  static constexpr int kRowShift = 8;

  CharacterClasses classes_;
  std::vector<std::uint32_t> entries_;  // by row and class; class size() is the end of the text
  std::uint32_t start_ = 0;
  std::vector<Skip> skips_;
  AsciiSet fails_;  // no match begins with one of these
  // The entries of a match's second character, by the classes of its first two; kNoPair for what is
  // not ASCII.
  static constexpr std::uint32_t kNoPair = ~std::uint32_t{0};
  std::vector<std::uint32_t> pairs_;  // by first << pair_shift_ | second
  int pair_shift_ = 0;
  // The state of English words: its entry, its skip, and the bytes before which a match ends in it.
  std::uint32_t word_entry_ = kNoPair, word_skip_ = 0;
  std::array<bool, 256> ends_word_{};
};

}  // namespace rondo
