// Finds added tokens, e.g. <|end_of_text|>, which are literal in text, before the text is split
// into words.
#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace rondo {

// A trie over bytes. After the last add() any thread may search.
class AddedTokens {
 public:
  // Adds a token. REQUIRES: `content` is not empty and not in the trie.
  void add(std::string_view content, std::int32_t id);

  struct Match {
    std::size_t begin, end;
    std::int32_t id;  // -1: no match
  };
  // Returns the leftmost match at `from` or later; of the matches at that position, the longest.
  Match find(std::string_view text, std::size_t from) const;

  // Calls token(id) for each token and gap(text) for each non-empty text between tokens, in order.
  template <class Gap, class Token>
  void cut(std::string_view text, const Gap& gap, const Token& token) const {
    std::size_t done = 0;
    while (done < text.size()) {
      const Match match = find(text, done);
      if (match.id < 0) break;
      if (match.begin > done) gap(text.substr(done, match.begin - done));
      token(match.id);
      done = match.end;
    }
    if (done < text.size()) gap(text.substr(done));
  }

 private:
  bool begins_[256] = {};                                   // whether some token has this first byte
  std::unordered_map<std::uint64_t, std::uint32_t> edges_;  // node * 256 + byte -> node; 0 is the root
  std::vector<std::int32_t> ids_{-1};                       // by node: the token that ends at it, or -1
};

}  // namespace rondo
