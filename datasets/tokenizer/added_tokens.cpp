#include "datasets/tokenizer/added_tokens.h"

namespace rondo {
namespace {

std::uint64_t edge(std::uint32_t node, char byte) {
  return std::uint64_t{node} << 8 | static_cast<unsigned char>(byte);
}

}  // namespace

void AddedTokens::add(std::string_view content, std::int32_t id) {
  begins_[static_cast<unsigned char>(content.front())] = true;
  std::uint32_t node = 0;
  for (const char byte : content) {
    const auto [place, is_new] =
        edges_.try_emplace(edge(node, byte), static_cast<std::uint32_t>(ids_.size()));
    if (is_new) ids_.push_back(-1);
    node = place->second;
  }
  ids_[node] = id;
}

AddedTokens::Match AddedTokens::find(std::string_view text, std::size_t from) const {
  if (edges_.empty()) return {text.size(), text.size(), -1};
  for (std::size_t begin = from; begin < text.size(); ++begin) {
    if (!begins_[static_cast<unsigned char>(text[begin])]) continue;
    Match longest{begin, begin, -1};
    std::uint32_t node = 0;
    for (std::size_t i = begin; i < text.size(); ++i) {
      const auto next = edges_.find(edge(node, text[i]));
      if (next == edges_.end()) break;
      node = next->second;
      if (ids_[node] >= 0) longest = {begin, i + 1, ids_[node]};
    }
    if (longest.id >= 0) return longest;
  }
  return {text.size(), text.size(), -1};
}

}  // namespace rondo
