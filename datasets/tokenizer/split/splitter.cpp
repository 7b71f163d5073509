#include "datasets/tokenizer/split/splitter.h"

#include "support/text/utf8.h"

namespace rondo {

Splitter::Splitter(const std::vector<SplitStage>& stages) {
  for (const SplitStage& stage : stages) {
    Stage& added = stages_.emplace_back(Stage{stage.kind, {}, stage.keep_matches, stage.keep_gaps});
    if (stage.kind == SplitStage::Kind::regex) added.regex.emplace_back(stage.pattern, stage.place);
  }
}

void Splitter::run(std::size_t stage, std::string_view text, RegexScratch& scratch,
                   const Words& words) const {
  if (text.empty()) return;
  if (stage == stages_.size()) return words(text);
  if (stages_[stage].kind == SplitStage::Kind::regex) return run_regex(stage, text, scratch, words);
  if (text.front() == ' ') return run(stage + 1, text, scratch, words);
  run(stage + 1, " " + std::string(text), scratch, words);
}

// An empty match splits at its position, unless a match ended there. Then the search continues one
// character later, as Oniguruma's callers do.
void Splitter::run_regex(std::size_t stage, std::string_view text, RegexScratch& scratch,
                         const Words& words) const {
  const Stage& current = stages_[stage];
  std::size_t done = 0, from = 0, last_end = std::string_view::npos;
  while (from <= text.size()) {
    const Regex::Match match = current.regex[0].search(text, from, scratch);
    if (!match.found) break;
    if (match.begin == match.end && match.end == last_end) {
      if (from == text.size()) break;
      from += utf8_length(text.substr(from));
      continue;
    }
    if (current.keep_gaps) run(stage + 1, text.substr(done, match.begin - done), scratch, words);
    if (current.keep_matches)
      run(stage + 1, text.substr(match.begin, match.end - match.begin), scratch, words);
    done = from = last_end = match.end;
  }
  if (current.keep_gaps) run(stage + 1, text.substr(done), scratch, words);
}

}  // namespace rondo
