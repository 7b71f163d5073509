// Tokens that stand in text as they are, e.g. <|end_of_text|>, found before the text is cut into words.
#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace rondo {

// A trie over bytes. Immutable once filled; any thread may search.
class AddedTokens {
 public:
  // `content` is not empty and not in the trie.
  void add(std::string_view content, std::int32_t id);

  struct Match {
    std::size_t begin, end;
    std::int32_t id;  // -1: none
  };
  // The leftmost token at `from` or later, and of those that begin there the longest.
  Match find(std::string_view text, std::size_t from) const;

  // Calls gap(text) for what lies between the tokens, if anything, and token(id) for each token, in order.
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
  bool begins_[256] = {};                                   // is there a token with this first byte?
  std::unordered_map<std::uint64_t, std::uint32_t> edges_;  // node * 256 + byte -> node; 0 is the root
  std::vector<std::int32_t> ids_ =
      std::vector<std::int32_t>(1, -1);  // of the token that ends at a node, or -1
};

}  // namespace rondo
