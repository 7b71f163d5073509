// The program of a regular expression: a nondeterministic automaton over code points whose branches
// are ordered, as a backtracking engine tries them (Thompson, 1968; Cox, "Regular Expression
// Matching: the Virtual Machine Approach", 2009).
//
// Reads the syntax that pattern.h writes for PCRE2. Not every such pattern has a program:
// look-behind, look-ahead at more than one character, atomic groups, possessive repeats of more
// than one character, repeats of what may be empty, and patterns that match an empty text are left
// to PCRE2.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "datasets/tokenizer/split/unicode.h"

namespace rondo {

struct PatternInstruction {
  enum class Kind : std::uint8_t {
    take,    // consumes a character of `set`, then goes on at `next`
    look,    // goes on at `next` if the next character is in `set`
    branch,  // tries `next` first, then `other`
    match,
  };
  Kind kind = Kind::match;
  bool at_end = false;  // look: also passes at the end of the text
  std::int32_t set = -1, next = -1, other = -1;
};

struct PatternProgram {
  std::vector<CodePointSet> sets;  // distinct
  std::vector<PatternInstruction> code;
  std::int32_t start = 0;
};

// Returns nullopt for a pattern without a program.
std::optional<PatternProgram> pattern_program(std::string_view pcre2_pattern);

}  // namespace rondo
