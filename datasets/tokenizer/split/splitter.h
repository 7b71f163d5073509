// Splits text into the words that BPE encodes: the stages of a tokenizer.json's pre_tokenizer, in
// order. Each stage splits every piece of the previous stage. Look-ahead sees one piece only.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/tokenizer/split/regex.h"

namespace rondo {

struct SplitStage {
  enum class Kind { prefix_space, regex };
  Kind kind = Kind::regex;
  // Kind::regex only.
  std::string pattern = {};  // PCRE2's syntax
  std::string place = {};    // for messages
  bool keep_matches = true, keep_gaps = true;
};

// Immutable. Threads share it, each with its own scratch.
class Splitter {
 public:
  // Throws Error(data) for a pattern that does not compile.
  explicit Splitter(const std::vector<SplitStage>& stages);

  using Words = std::function<void(std::string_view)>;
  // Calls `words` with each word in order; no word is empty. REQUIRES: `text` is valid UTF-8.
  void split(std::string_view text, RegexScratch& scratch, const Words& words) const {
    run(0, text, scratch, words);
  }

 private:
  struct Stage {
    SplitStage::Kind kind;
    std::vector<Regex> regex;  // at most one
    bool keep_matches, keep_gaps;
  };
  void run(std::size_t stage, std::string_view text, RegexScratch& scratch, const Words& words) const;
  void run_regex(std::size_t stage, std::string_view text, RegexScratch& scratch, const Words& words) const;

  std::vector<Stage> stages_;
};

}  // namespace rondo
