// A stage that isolates or removes its matches passes pieces on as it finds them. The other
// behaviours need the list of all matches first, as in the reference.
#include "datasets/tokenizer/split/splitter.h"

#include <algorithm>
#include <array>

#include "datasets/tokenizer/split/byte_level.h"

namespace rondo {
namespace {

// Bounds one call of Automaton::split: words, and pieces that a later stage splits.
constexpr std::size_t kMaxWords = 256, kMaxPieces = 16;

// Returns whether a stage passes pieces on as it finds them.
bool passes_on(SplitBehavior behavior) {
  return behavior == SplitBehavior::isolated || behavior == SplitBehavior::removed;
}

struct Piece {
  std::size_t begin, end;
  bool is_match;
};

// Joins pieces with the last piece before them.
std::vector<Piece> merged(std::vector<Piece> pieces, SplitBehavior behavior) {
  const bool backwards = behavior == SplitBehavior::merged_with_next;
  if (backwards) std::reverse(pieces.begin(), pieces.end());
  std::vector<Piece> joined;
  bool previous_match = false;
  for (const Piece& piece : pieces) {
    const bool joins = behavior == SplitBehavior::contiguous ? piece.is_match == previous_match
                                                             : piece.is_match && !previous_match;
    previous_match = piece.is_match;
    if (!joins || joined.empty())
      joined.push_back(piece);
    else if (backwards)
      joined.back().begin = piece.begin;
    else
      joined.back().end = piece.end;
  }
  if (backwards) std::reverse(joined.begin(), joined.end());
  return joined;
}

std::string replace_spaces(std::string_view text, const SplitStage& stage, bool is_first) {
  std::string replaced;
  for (const char c : text)
    if (c == ' ')
      replaced += stage.replacement;
    else
      replaced += c;
  const bool prepends = stage.prepend == SplitStage::Prepend::always ||
                        (stage.prepend == SplitStage::Prepend::first && is_first);
  return prepends && !replaced.starts_with(stage.replacement) ? stage.replacement + replaced : replaced;
}

}  // namespace

Splitter::Splitter(const std::vector<SplitStage>& stages, TokenizerEngine engine) {
  for (const SplitStage& stage : stages) {
    Stage& added = stages_.emplace_back(Stage{stage, {}, {}});
    if (stage.kind != SplitStage::Kind::regex) continue;
    added.regex.emplace_back(stage.pattern, stage.place);
    if (engine == TokenizerEngine::fast && passes_on(stage.behavior))
      added.automaton = Automaton::compile(stage.pattern);
  }
}

bool Splitter::uses_automata() const {
  return std::all_of(stages_.begin(), stages_.end(), [](const Stage& stage) {
    return stage.automaton || stage.regex.empty() || !passes_on(stage.options.behavior);
  });
}

template <std::size_t most>
void Splitter::run_automaton(std::size_t stage, std::string_view text, bool is_first, RegexScratch& scratch,
                             const Words& words) const {
  const SplitStage& options = stages_[stage].options;
  const bool keeps_all = options.behavior == SplitBehavior::isolated;
  const Automaton::Wanted wanted = keeps_all        ? Automaton::Wanted::all
                                   : options.invert ? Automaton::Wanted::matches
                                                    : Automaton::Wanted::gaps;
  std::array<std::string_view, most> pieces;
  for (std::string_view rest = text; !rest.empty();) {
    const auto found = std::span(pieces).first(stages_[stage].automaton->split(rest, wanted, pieces));
    if (stage + 1 == stages_.size()) {
      if (!found.empty()) words(found);
      continue;
    }
    for (const std::string_view piece : found)
      run(stage + 1, piece, is_first && piece.data() == text.data(), scratch, words);
  }
}

template <class Found>
void Splitter::each_piece(const Stage& stage, std::string_view text, RegexScratch& scratch,
                          const Found& piece) const {
  const bool invert = stage.options.invert;
  const SplitBehavior behavior = stage.options.behavior;
  const Regex& regex = stage.regex[0];
  if (passes_on(behavior)) {
    const bool keeps_all = behavior == SplitBehavior::isolated;
    return each_match(regex, text, scratch, [&](std::size_t begin, std::size_t end, bool is_match) {
      if (keeps_all || is_match == invert) piece(begin, end);
    });
  }
  std::vector<Piece> pieces;
  each_match(regex, text, scratch, [&](std::size_t begin, std::size_t end, bool is_match) {
    pieces.push_back({begin, end, is_match != invert});
  });
  for (const Piece& joined : merged(std::move(pieces), behavior)) piece(joined.begin, joined.end);
}

void Splitter::run(std::size_t stage, std::string_view text, bool is_first, RegexScratch& scratch,
                   const Words& words) const {
  if (text.empty()) return;
  if (stage == stages_.size()) return words({&text, 1});
  const Stage& current = stages_[stage];
  switch (current.options.kind) {
    case SplitStage::Kind::regex:
      if (current.automaton && stage + 1 == stages_.size())
        return run_automaton<kMaxWords>(stage, text, is_first, scratch, words);
      if (current.automaton) return run_automaton<kMaxPieces>(stage, text, is_first, scratch, words);
      return each_piece(current, text, scratch, [&](std::size_t begin, std::size_t end) {
        run(stage + 1, text.substr(begin, end - begin), is_first && begin == 0, scratch, words);
      });
    case SplitStage::Kind::prefix_space:
      if (text.front() == ' ') return run(stage + 1, text, is_first, scratch, words);
      return run(stage + 1, " " + std::string(text), is_first, scratch, words);
    case SplitStage::Kind::bytes:
      return run(stage + 1, token_of_bytes(text), is_first, scratch, words);
    case SplitStage::Kind::metaspace:
      return run(stage + 1, replace_spaces(text, current.options, is_first), is_first, scratch, words);
  }
}

}  // namespace rondo
