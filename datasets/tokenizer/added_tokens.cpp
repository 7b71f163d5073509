#include "datasets/tokenizer/added_tokens.h"

#include <algorithm>
#include <utility>

#include "support/utf8.h"

namespace rondo {
namespace {

std::uint64_t edge(std::uint32_t node, char byte) {
  return std::uint64_t{node} << 8 | static_cast<unsigned char>(byte);
}

bool ends_with(std::string_view text, const CodePointBits& set) {
  return !text.empty() && set.contains(utf8_character(text.substr(last_character(text))));
}

bool begins_with(std::string_view text, const CodePointBits& set) {
  return !text.empty() && set.contains(utf8_character(text));
}

}  // namespace

void AddedTokens::add(std::string_view content, std::int32_t id, AddedTokenRules rules) {
  if (rules.single_word || rules.takes_left || rules.takes_right) {
    has_rules_ = true;
    if (!words_) words_.emplace(unicode_set("words"));
    if (!spaces_) spaces_.emplace(unicode_set("spaces"));
  }
  bool& begins = begins_[static_cast<unsigned char>(content.front())];
  if (!std::exchange(begins, true)) first_bytes_ += content.front();
  std::uint32_t node = 0;
  for (const char byte : content) {
    const auto [place, is_new] =
        edges_.try_emplace(edge(node, byte), static_cast<std::uint32_t>(ends_.size()));
    if (is_new) ends_.push_back(-1);
    node = place->second;
  }
  ends_[node] = static_cast<std::int32_t>(tokens_.size());
  tokens_.push_back({id, rules});
}

std::size_t AddedTokens::find_begin(std::string_view text, std::size_t from) const {
  if (first_bytes_.empty()) return text.size();
  if (first_bytes_.size() == 1) return std::min(text.find(first_bytes_.front(), from), text.size());
  while (from < text.size() && !begins_[static_cast<unsigned char>(text[from])]) ++from;
  return from;
}

AddedTokens::Match AddedTokens::find(std::string_view text, std::size_t from) const {
  for (std::size_t begin = from; (begin = find_begin(text, begin)) < text.size(); ++begin) {
    Match longest{begin, begin, -1};
    std::uint32_t node = 0;
    for (std::size_t i = begin; i < text.size(); ++i) {
      const auto next = edges_.find(edge(node, text[i]));
      if (next == edges_.end()) break;
      node = next->second;
      if (ends_[node] >= 0) longest = {begin, i + 1, ends_[node]};
    }
    if (longest.token >= 0) return longest;
  }
  return {text.size(), text.size(), -1};
}

// As the reference does it: a token may take spaces up to `done`, where the last token ended, and
// may itself be within the spaces that the last one took.
bool AddedTokens::apply(const AddedTokenRules& rules, std::string_view text, std::size_t done,
                        Match& match) const {
  if (rules.single_word &&
      (ends_with(text.substr(0, match.begin), *words_) || begins_with(text.substr(match.end), *words_)))
    return false;
  if (rules.takes_left) {
    while (match.begin > done && ends_with(text.substr(0, match.begin), *spaces_))
      match.begin = last_character(text.substr(0, match.begin));
    match.begin = std::max(match.begin, done);
  }
  if (rules.takes_right) {
    match.end = std::max(match.end, done);  // the last token ended behind these spaces
    while (begins_with(text.substr(match.end), *spaces_)) match.end += utf8_length(text.substr(match.end));
  }
  return true;
}

}  // namespace rondo
