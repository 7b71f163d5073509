// Finds added tokens, e.g. <|end_of_text|>, which are literal in text, before the text is split
// into words.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "datasets/tokenizer/split/unicode.h"

namespace rondo {

struct AddedTokenRules {
  bool single_word = false;                      // counts only where no word goes on at either side
  bool takes_left = false, takes_right = false;  // takes the spaces at that side (lstrip, rstrip)
  bool counted = false;
  bool stays_text = false;  // counted; no other token is found in it
};

// A trie over bytes. After the last add() any thread may search.
class AddedTokens {
 public:
  // Adds a token. REQUIRES: `content` is not empty and not in the trie.
  void add(std::string_view content, std::int32_t id, AddedTokenRules rules = {});

  struct Match {
    std::size_t begin, end;
    std::int32_t token;  // its index, in the order of add(); -1: no match
  };
  // Returns the leftmost match at `from` or later; of the matches at that position, the longest.
  Match find(std::string_view text, std::size_t from) const;

  // Calls token(id) for each token and gap(text) for each non-empty text between tokens, in order.
  // Returns how many tokens are counted. REQUIRES: `text` is valid UTF-8.
  template <class Gap, class Token>
  std::int64_t cut(std::string_view text, const Gap& gap, const Token& token) const {
    std::size_t done = 0;
    std::int64_t count = 0;
    for (std::size_t from = 0; from < text.size();) {
      Match match = find(text, from);
      if (match.token < 0) break;
      from = match.end;
      const Entry& entry = tokens_[match.token];
      if (entry.rules.stays_text) {
        ++count;
        continue;
      }
      if (has_rules_ && !apply(entry.rules, text, done, match)) continue;
      if (match.begin >= match.end) continue;  // the last token took it with its spaces
      if (match.begin > done) gap(text.substr(done, match.begin - done));
      token(entry.id);
      count += entry.rules.counted;
      done = match.end;
    }
    if (done < text.size()) gap(text.substr(done));
    return count;
  }

 private:
  struct Entry {
    std::int32_t id;
    AddedTokenRules rules;
  };
  // Extends the match. Returns false if the token does not count there.
  bool apply(const AddedTokenRules& rules, std::string_view text, std::size_t done, Match& match) const;

  // Returns the first byte in [from, size) at which a token may begin, or the size.
  std::size_t find_begin(std::string_view text, std::size_t from) const;

  bool begins_[256] = {};                                   // whether some token has this first byte
  std::string first_bytes_;                                 // distinct
  std::unordered_map<std::uint64_t, std::uint32_t> edges_;  // node * 256 + byte -> node; 0 is the root
  std::vector<std::int32_t> ends_{-1};                      // by node: the token that ends at it, or -1
  std::vector<Entry> tokens_;
  bool has_rules_ = false;
  std::optional<CodePointBits> words_, spaces_;  // where some token has rules
};

}  // namespace rondo
