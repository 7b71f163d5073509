// Splits text into the words that BPE encodes: the stages of a tokenizer.json's pre_tokenizer, in
// order. Each stage splits or rewrites every piece of the previous stage. Look-ahead sees one piece
// only.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/tokenizer/split/automaton.h"
#include "datasets/tokenizer/split/regex.h"

namespace rondo {

// What becomes of the matches of a pattern, as in the package `tokenizers`: pieces of their own,
// nothing, the end of the piece before or the beginning of the piece after them, or one piece for
// all neighbouring matches.
enum class SplitBehavior { isolated, removed, merged_with_previous, merged_with_next, contiguous };

struct SplitStage {
  // prefix_space puts a space before a piece that does not begin with one. bytes writes the bytes
  // of a piece in the alphabet of ByteLevel. metaspace replaces spaces and prepends.
  enum class Kind { prefix_space, regex, bytes, metaspace };
  enum class Prepend { never, first, always };
  Kind kind = Kind::regex;
  // Kind::regex only.
  std::string pattern = {};  // PCRE2's syntax
  std::string place = {};    // for messages
  SplitBehavior behavior = SplitBehavior::isolated;
  bool invert = false;  // exchanges matches and the text between them
  // Kind::metaspace only.
  std::string replacement = {};
  Prepend prepend = Prepend::never;  // puts a replacement before pieces, or before the first one
  // The stage in the words of the file; equal for stages that split equally.
  std::string meaning = {};
};

// `reference` finds matches with PCRE2 only. `fast` finds the same matches with an automaton where
// the pattern has one, and the stage isolates or removes its matches.
enum class TokenizerEngine { fast, reference };

// Immutable. Threads share it, each with its own scratch.
class Splitter {
 public:
  // Throws Error(data) for a pattern that does not compile.
  explicit Splitter(const std::vector<SplitStage>& stages, TokenizerEngine engine = TokenizerEngine::fast);

  using Words = std::function<void(std::span<const std::string_view>)>;
  // Calls `words` with the words in order, some at a time; no word is empty. `is_first`: the text
  // begins a document. REQUIRES: `text` is valid UTF-8.
  void split(std::string_view text, bool is_first, RegexScratch& scratch, const Words& words) const {
    run(0, text, is_first, scratch, words);
  }

  // Returns whether every stage that may use an automaton has one.
  bool uses_automata() const;

 private:
  struct Stage {
    SplitStage options;
    std::vector<Regex> regex;  // at most one
    std::optional<Automaton> automaton;
  };
  void run(std::size_t stage, std::string_view text, bool is_first, RegexScratch& scratch,
           const Words& words) const;
  template <std::size_t most>
  void run_automaton(std::size_t stage, std::string_view text, bool is_first, RegexScratch& scratch,
                     const Words& words) const;
  template <class Found>
  void each_piece(const Stage& stage, std::string_view text, RegexScratch& scratch, const Found& piece) const;

  std::vector<Stage> stages_;
};

}  // namespace rondo
