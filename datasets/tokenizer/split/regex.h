// A compiled regular expression over UTF-8: PCRE2 with JIT. Immutable. Threads share it, each with
// its own scratch.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "support/utf8.h"

struct pcre2_real_code_8;
struct pcre2_real_match_data_8;
struct pcre2_real_match_context_8;
struct pcre2_real_jit_stack_8;

namespace rondo {

// The workspace of a search. One per thread; any Regex may use it.
class RegexScratch {
 public:
  RegexScratch();

 private:
  friend class Regex;
  struct Free {
    void operator()(pcre2_real_match_data_8*) const;
    void operator()(pcre2_real_match_context_8*) const;
    void operator()(pcre2_real_jit_stack_8*) const;
  };
  std::unique_ptr<pcre2_real_jit_stack_8, Free> stack_;
  std::unique_ptr<pcre2_real_match_context_8, Free> context_;
  std::unique_ptr<pcre2_real_match_data_8, Free> data_;
};

class Regex {
 public:
  // Compiles a pattern of PCRE2's syntax. `place` names its place in the file, for messages.
  // Throws Error(data).
  Regex(const std::string& pattern, std::string place);

  struct Match {
    std::size_t begin, end;
    bool found;
  };
  // Returns the first match that begins at `from` or later. REQUIRES: `text` is valid UTF-8, and a
  // character begins at `from`. Throws Error(data) when the engine exceeds its limits
  // on backtracking.
  Match search(std::string_view text, std::size_t from, RegexScratch& scratch) const;

 private:
  struct Free {
    void operator()(pcre2_real_code_8*) const;
  };
  std::unique_ptr<pcre2_real_code_8, Free> code_;
  std::string place_;
};

// Calls piece(begin, end, is_match) for each match of `regex` and each non-empty text between
// matches, in order. An empty match splits at its position, unless a match ended there. Then the
// search continues one character later, as Oniguruma's callers do.
template <class Found>
void each_match(const Regex& regex, std::string_view text, RegexScratch& scratch, const Found& piece) {
  std::size_t done = 0, from = 0, last_end = std::string_view::npos;
  while (from <= text.size()) {
    const Regex::Match match = regex.search(text, from, scratch);
    if (!match.found) break;
    if (match.begin == match.end && match.end == last_end) {
      if (from == text.size()) break;
      from += utf8_length(text.substr(from));
      continue;
    }
    if (match.begin > done) piece(done, match.begin, false);
    piece(match.begin, match.end, true);
    done = from = last_end = match.end;
  }
  if (done < text.size()) piece(done, text.size(), false);
}

}  // namespace rondo
