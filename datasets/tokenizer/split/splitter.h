// How text is cut into the words that BPE works on: the stages of a tokenizer.json's pre_tokenizer, in order.
// Each stage cuts every piece of the one before; a piece is all that the next stage's look-ahead sees.
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

// Immutable; any thread, with a scratch each.
class Splitter {
 public:
  // Throws Error(data) for a pattern that does not compile.
  explicit Splitter(const std::vector<SplitStage>& stages);

  using Words = std::function<void(std::string_view)>;
  // Calls `words` with each word in turn; none is empty. `text` is valid UTF-8.
  void split(std::string_view text, RegexScratch& scratch, const Words& words) const {
    run(0, text, scratch, words);
  }

 private:
  struct Stage {
    SplitStage::Kind kind;
    std::vector<Regex> regex;  // none or one
    bool keep_matches, keep_gaps;
  };
  void run(std::size_t stage, std::string_view text, RegexScratch& scratch, const Words& words) const;
  void run_regex(std::size_t stage, std::string_view text, RegexScratch& scratch, const Words& words) const;

  std::vector<Stage> stages_;
};

}  // namespace rondo
