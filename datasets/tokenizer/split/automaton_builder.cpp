// Builds an Automaton from a program by the subset construction, with ordered sets. A state is what
// is left to try before a character. Its transition follows branches and look-aheads, which the
// character decides, in the engine's order; what has been tried once at a position is not tried
// again. A match ends the list.
#include <algorithm>
#include <bit>
#include <map>

#include "datasets/tokenizer/split/automaton.h"

namespace rondo {
namespace {

constexpr std::size_t kMaxStates = 4096, kMaxEntries = std::size_t{1} << 20;
constexpr std::int64_t kMaxWork = 4'000'000;  // instructions visited: less than a tenth of a second
constexpr char32_t kEndOfCodePoints = 0x110000;

}  // namespace

CharacterClasses::CharacterClasses(const std::vector<CodePointSet>& sets) {
  std::map<char32_t, std::uint64_t> changes = {{kEndOfCodePoints, 0}};  // the sets that begin or end there
  for (std::size_t i = 0; i < sets.size(); ++i)
    for (const CodePointRange& range : sets[i]) {
      changes[range.first] ^= std::uint64_t{1} << i;
      changes[range.last + 1] ^= std::uint64_t{1} << i;
    }
  std::map<std::uint64_t, std::uint8_t> numbers;
  std::vector<std::uint8_t> classes(kEndOfCodePoints);
  std::uint64_t current = 0;
  char32_t begin = 0;
  for (const auto& [at, change] : changes) {
    if (at > begin) {
      const auto [number, is_new] = numbers.emplace(current, static_cast<std::uint8_t>(sets_of_.size()));
      if (is_new) sets_of_.push_back(current);
      std::fill(classes.begin() + begin, classes.begin() + at, number->second);
    }
    current ^= change;
    begin = at;
  }
  of_byte_.fill(static_cast<std::uint8_t>(sets_of_.size()));
  std::copy_n(classes.begin(), 0x80, of_byte_.begin());
  std::map<Page, std::uint16_t> pages;
  for (std::size_t i = 0; i < classes.size(); i += kPage) {
    Page page;
    std::copy_n(classes.begin() + static_cast<std::ptrdiff_t>(i), kPage, page.begin());
    const auto [number, is_new] = pages.emplace(page, static_cast<std::uint16_t>(pages_.size()));
    if (is_new) pages_.push_back(page);
    page_of_.push_back(number->second);
  }
}

class AutomatonBuilder {
 public:
  AutomatonBuilder(const PatternProgram& program, CharacterClasses classes)
      : program_(program),
        automaton_(std::move(classes)),
        tried_(program.code.size()),
        queued_(program.code.size()) {
    while (width_ <= automaton_.classes_.size()) width_ *= 2;
  }

  std::optional<Automaton> run() {
    add({});  // row 0: nothing is left to try
    automaton_.start_ = add({program_.start});
    for (std::size_t state = 1; state < states_.size(); ++state) {
      automaton_.entries_.resize((state + 1) * width_);
      for (std::uint32_t a_class = 0; a_class <= automaton_.classes_.size(); ++a_class)
        automaton_.entries_[state * width_ + a_class] = entry(state, a_class);
      if (work_ > kMaxWork || states_.size() > kMaxStates || states_.size() * width_ > kMaxEntries)
        return std::nullopt;
    }
    add_skips();
    add_pairs();
    add_words();
    return std::move(automaton_);
  }

 private:
  using State = std::vector<std::int32_t>;  // instructions, the preferred first
  static constexpr int kShift = Automaton::kRowShift;

  // Returns the row of a state, which may be new.
  std::uint32_t add(State state) {
    const auto [place, is_new] = numbers_.emplace(std::move(state), states_.size());
    if (is_new) states_.push_back(&place->first);
    return static_cast<std::uint32_t>(place->second * width_);
  }

  std::uint32_t entry(std::size_t state, std::uint32_t a_class) {
    const CharacterClasses& classes = automaton_.classes_;
    const bool at_end = a_class == classes.size();
    ++round_;
    next_.clear();
    // Last in, first out. Branches push what is preferred last.
    pending_.assign(states_[state]->rbegin(), states_[state]->rend());
    bool is_match = false;
    while (!pending_.empty() && !is_match) {
      const std::int32_t at = pending_.back();
      pending_.pop_back();
      ++work_;
      if (std::exchange(tried_[at], round_) == round_) continue;
      const PatternInstruction& instruction = program_.code[at];
      switch (instruction.kind) {
        case PatternInstruction::Kind::take:
          if (!at_end && classes.in_set(a_class, instruction.set) && !is_queued(instruction.next))
            next_.push_back(instruction.next);
          break;
        case PatternInstruction::Kind::look:
          if (at_end ? instruction.at_end : classes.in_set(a_class, instruction.set))
            pending_.push_back(instruction.next);
          break;
        case PatternInstruction::Kind::branch:
          pending_.push_back(instruction.other);
          pending_.push_back(instruction.next);
          break;
        case PatternInstruction::Kind::match:
          is_match = true;
          break;
      }
    }
    return add(next_) << kShift | (is_match ? Automaton::kIsMatch : 0);
  }

  // An instruction counts once, where it is preferred most.
  bool is_queued(std::int32_t at) { return std::exchange(queued_[at], round_) == round_; }

  std::uint32_t& at(std::uint32_t row, unsigned char byte) {
    return automaton_.entries_[row + automaton_.classes_.of_byte(static_cast<char>(byte))];
  }

  // Returns the number of the state's skip, as in an entry; 0 if its runs are not skipped.
  std::uint32_t skip_of(std::uint32_t row) {
    std::array<Automaton::Skip, 2> runs{{{{}, false}, {{}, true}}};
    for (unsigned char byte = 0; byte < 0x80; ++byte)
      if (at(row, byte) >> kShift == row) runs[at(row, byte) & Automaton::kIsMatch].set.add(byte);
    std::vector<Automaton::Skip>& skips = automaton_.skips_;
    const Automaton::Skip& run = runs[runs[1].set.empty() ? 0 : 1];
    if (run.set.empty()) return 0;
    auto known = std::find_if(skips.begin() + 1, skips.end(), [&](const Automaton::Skip& skip) {
      return skip.set == run.set && skip.is_match == run.is_match;
    });
    const auto number = static_cast<std::uint32_t>(known - skips.begin());
    if (known == skips.end()) {
      if (number > Automaton::kSkip >> 1) return 0;
      skips.push_back(run);
    }
    return number << 1;
  }

  void add_skips() {
    automaton_.skips_.resize(1);
    std::vector<std::uint32_t> skips(states_.size());
    for (std::size_t state = 1; state < states_.size(); ++state)
      skips[state] = skip_of(static_cast<std::uint32_t>(state * width_));
    for (std::uint32_t& entry : automaton_.entries_) entry |= skips[(entry >> kShift) / width_];
    for (unsigned char byte = 0; byte < 0x80; ++byte)
      if (at(automaton_.start_, byte) >> kShift == 0) automaton_.fails_.add(byte);
  }

  void add_pairs() {
    Automaton& a = automaton_;
    a.pair_shift_ = std::countr_zero(width_);
    a.pairs_.assign(width_ * width_, Automaton::kNoPair);
    for (unsigned char first = 0; first < 0x80; ++first)
      for (unsigned char second = 0; second < 0x80; ++second) {
        const auto of = [&](unsigned char byte) { return a.classes_.of_byte(static_cast<char>(byte)); };
        if (const std::uint32_t row = at(a.start_, first) >> kShift; row != 0)
          a.pairs_[of(first) << a.pair_shift_ | of(second)] = at(row, second);
      }
  }

  // Finds the state of English words, which goes on with letters.
  void add_words() {
    const std::uint32_t word = at(at(automaton_.start_, 't') >> kShift, 'e');
    const std::uint32_t number = word & Automaton::kSkip;
    if (!automaton_.skips_[number >> 1].is_match) return;
    automaton_.word_entry_ = word;
    automaton_.word_skip_ = number;
    for (unsigned char byte = 0; byte < 0x80; ++byte)
      automaton_.ends_word_[byte] = at(word >> kShift, byte) == Automaton::kIsMatch;
  }

  const PatternProgram& program_;
  Automaton automaton_;
  std::size_t width_ = 1;  // of a row
  std::map<State, std::size_t> numbers_;
  std::vector<const State*> states_;
  State pending_, next_;
  std::vector<std::int32_t> tried_, queued_;  // by instruction: the last round that did so
  std::int32_t round_ = 0;
  std::int64_t work_ = 0;
};

std::optional<Automaton> Automaton::compile(std::string_view pcre2_pattern) {
  const std::optional<PatternProgram> program = pattern_program(pcre2_pattern);
  if (!program || program->sets.size() > CharacterClasses::kMaxSets) return std::nullopt;
  CharacterClasses classes(program->sets);
  if (classes.size() > CharacterClasses::kMax) return std::nullopt;
  return AutomatonBuilder(*program, std::move(classes)).run();
}

}  // namespace rondo
