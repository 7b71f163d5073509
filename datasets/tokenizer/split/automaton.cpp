// A search runs one loop for each match: a class and an entry of the table for each character. Runs
// are skipped without a branch for each character, whose number the processor could not predict.
//
// The set of a skip is data that depends on the state, and so on every character before it. Most
// words are of letters. So their set is compared by number, which the processor predicts, and it is
// in registers: then the words of a text do not wait for the table.
#include "datasets/tokenizer/split/automaton.h"

namespace rondo {

namespace {

// Keeps the compiler from replacing a branch to here by a conditional move.
const char* opaque(const char* p) {
  asm volatile("" : "+r"(p));
  return p;
}

}  // namespace

// Returns the end of the match that has reached `entry` with the character in [before, p); nullptr
// without a match.
template <class Run>
const char* Automaton::match_from(std::uint32_t entry, const char* before, const char* p, const char* end,
                                  const AsciiSet& word_letters) const {
  const char* last = nullptr;
  for (;;) {
    const std::uint32_t row = entry >> kRowShift;
    if (row == 0) return (entry & kIsMatch) != 0 ? before : last;
    if ((entry & kIsMatch) != 0) last = before;
    if (const std::uint32_t number = entry & kSkip; number == word_skip_) {
      const char* const run_end = Run::end_of(word_letters, p, end);
      if (run_end != p) last = run_end - 1;
      p = run_end;
    } else if (number != 0) {
      const Skip& skip = skips_[number >> 1];
      const char* const run_end = Run::end_of(skip.set, p, end);
      if (skip.is_match && run_end != p) last = run_end - 1;
      p = run_end;
    }
    if (p == end) return (entries_[row + classes_.size()] & kIsMatch) != 0 ? end : last;
    before = p;
    entry = entries_[row + classes_.take(p)];
  }
}

// Returns the end of the match at `p`, or nullptr.
template <class Run>
const char* Automaton::match_at(const char* p, const char* end, const AsciiSet& word_letters,
                                RunWindow& window) const {
  if (end - p >= 2) {
    const std::uint32_t entry = pairs_[(classes_.of_byte(p[0]) << pair_shift_) + classes_.of_byte(p[1])];
    if (entry == kIsMatch) return opaque(p + 1);
    if (entry == word_entry_ && window.reaches<Run>(p + 2, end, word_letters)) {
      const char* const run_end = p + 2 + window.length(p + 2);
      if (ends_word_[static_cast<unsigned char>(*run_end)]) return opaque(run_end);
    }
    if (entry != kNoPair) return match_from<Run>(entry, p + 1, p + 2, end, word_letters);
  }
  const char* const before = p;
  const std::uint32_t entry = entries_[start_ + classes_.take(p)];
  return match_from<Run>(entry, before, p, end, word_letters);
}

template <class Run>
std::size_t Automaton::split_with(std::string_view& rest, Wanted wanted,
                                  std::span<std::string_view> pieces) const {
  const AsciiSet word_letters = skips_[word_skip_ >> 1].set, fails = fails_;
  const bool has_fails = !fails.empty(), matches = wanted != Wanted::gaps, gaps = wanted != Wanted::matches;
  RunWindow window;
  const char *p = rest.data(), *done = p;
  const char* const end = p + rest.size();
  std::string_view *out = pieces.data(), *const out_end = out + pieces.size() - 1;  // a gap and a match
  while (p != end && out < out_end) {
    if (has_fails && (p = Run::end_of(fails, p, end)) == end) break;
    const char* const match_end = match_at<Run>(p, end, word_letters, window);
    if (match_end == nullptr) {
      classes_.take(p);
      continue;
    }
    if (done != p && gaps) *out++ = {done, p};
    *out = {p, match_end};
    out += matches ? 1 : 0;
    p = done = match_end;
  }
  if (p == end) {
    if (done != end && gaps) *out++ = {done, end};
    done = end;
  }
  rest = {done, end};
  return static_cast<std::size_t>(out - pieces.data());
}

#if defined(__x86_64__)
[[gnu::target("avx"), gnu::flatten]] std::size_t Automaton::split_by_sixteen(
    std::string_view& rest, Wanted wanted, std::span<std::string_view> pieces) const {
  return split_with<RunBySixteen>(rest, wanted, pieces);
}
#endif

std::size_t Automaton::split(std::string_view& rest, Wanted wanted,
                             std::span<std::string_view> pieces) const {
#if defined(__x86_64__)
  static const bool has_avx = __builtin_cpu_supports("avx");
  if (has_avx) return split_by_sixteen(rest, wanted, pieces);
#endif
  return split_with<RunOneByOne>(rest, wanted, pieces);
}

}  // namespace rondo
