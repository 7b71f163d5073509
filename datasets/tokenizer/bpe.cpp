// Symbols are a doubly linked list in an array. Possible merges are in a heap ordered by rank, then
// by position: O(n log n), where rescanning would be quadratic. Outdated entries stay in the heap,
// and are dropped when their ids differ from those of the symbols. The table of merges uses open
// addressing with Fibonacci hashing, keyed by the pair of ids, and is at most half full. Whole
// words are cached.
#include "datasets/tokenizer/bpe.h"

#include <algorithm>
#include <bit>
#include <span>

#include "support/text/utf8.h"

namespace rondo {
namespace {

std::uint64_t pair_of(std::int32_t left, std::int32_t right) {
  return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
}

}  // namespace

Bpe::Bpe(BpeModel model) : byte_ids_(model.byte_ids), characters_(std::move(model.characters)) {
  const std::size_t size = std::bit_ceil(2 * model.merges.size() + 2);
  slots_.resize(size);
  shift_ = 64 - std::countr_zero(size);
  for (std::uint32_t index = 0; index < model.merges.size(); ++index) {
    const BpeMerge& merge = model.merges[index];
    const std::uint64_t pair = pair_of(merge.left, merge.right);
    std::size_t i = first_slot(pair);
    while (slots_[i].pair != pair && slots_[i].pair != kNoPair) i = (i + 1) % size;
    slots_[i] = {pair, model.token_ranks.empty() ? index : model.token_ranks[merge.merged], merge.merged};
  }
  whole_words_.insert(model.whole_words.begin(), model.whole_words.end());
}

const Bpe::Slot* Bpe::find(std::int32_t left, std::int32_t right) const {
  const std::uint64_t pair = pair_of(left, right);
  std::size_t i = first_slot(pair);
  while (slots_[i].pair != pair) {
    if (slots_[i].pair == kNoPair) return nullptr;
    i = (i + 1) & (slots_.size() - 1);
  }
  return &slots_[i];
}

void Bpe::encode(std::string_view word, Work& work, std::vector<std::int32_t>& out) const {
  if (word.empty()) return;
  if (word.size() == 1 && !characters_) return encode_bytes(word, work, out);
  if (work.cache_.find(word, out)) return;
  const std::size_t first_new = out.size();
  const std::int64_t dropped_before = work.dropped;
  const auto match = whole_words_.empty() ? whole_words_.end() : whole_words_.find(std::string(word));
  if (match != whole_words_.end()) {
    out.push_back(match->second);
  } else {
    characters_ ? begin_with_characters(word, work) : begin_with_bytes(word, work);
    merge(work, out);
  }
  // A word of the cache would not be counted again.
  if (work.dropped == dropped_before) work.cache_.keep(word, std::span(out).subspan(first_new));
}

void Bpe::encode_bytes(std::string_view bytes, Work& work, std::vector<std::int32_t>& out) const {
  for (const char byte : bytes) {
    const std::int32_t id = byte_ids_[static_cast<unsigned char>(byte)];
    if (id >= 0)
      out.push_back(id);
    else
      ++work.dropped;
  }
}

void Bpe::begin_with_bytes(std::string_view word, Work& work) const {
  work.symbols_.resize(word.size());
  std::int32_t size = 0;
  for (const char byte : word) {
    const std::int32_t id = byte_ids_[static_cast<unsigned char>(byte)];
    if (id < 0)
      ++work.dropped;
    else
      work.symbols_[size] = {id, size - 1, size + 1}, ++size;
  }
  work.symbols_.resize(size);
}

// As BPE::merge_word of the reference. An unknown character is added with the next known one, so
// it comes after the byte tokens that follow it.
void Bpe::begin_with_characters(std::string_view word, Work& work) const {
  work.symbols_.clear();
  const auto add = [&](std::int32_t id) {
    const auto at = static_cast<std::int32_t>(work.symbols_.size());
    work.symbols_.push_back({id, at - 1, at + 1});
  };
  bool unknown_waits = false;
  std::string token;
  for (std::size_t i = 0, end = 0; i < word.size(); i = end) {
    end = i + utf8_length(word.substr(i));
    token.assign(i == 0 ? "" : characters_->prefix);
    token += word.substr(i, end - i);
    if (end == word.size()) token += characters_->suffix;
    if (const auto known = characters_->ids.find(token); known != characters_->ids.end()) {
      if (unknown_waits) add(*characters_->unknown);
      unknown_waits = false;
      add(known->second);
      continue;
    }
    const bool has_bytes =
        characters_->byte_fallback && std::all_of(token.begin(), token.end(), [&](char byte) {
          return byte_ids_[static_cast<unsigned char>(byte)] >= 0;
        });
    if (has_bytes) {
      for (const char byte : token) add(byte_ids_[static_cast<unsigned char>(byte)]);
    } else if (characters_->unknown) {
      if (unknown_waits && !characters_->fuse_unknown) add(*characters_->unknown);
      unknown_waits = true;
    } else {
      ++work.dropped;
    }
  }
  if (unknown_waits) add(*characters_->unknown);
}

// Pushes the merge of the symbol `at` with its successor on the heap, if that merge exists. The
// heap orders by lowest rank, then leftmost position.
void Bpe::consider(std::int32_t at, Work& work) const {
  if (at < 0 || work.symbols_[at].after < 0) return;
  const std::int32_t left = work.symbols_[at].id, right = work.symbols_[work.symbols_[at].after].id;
  const Slot* slot = find(left, right);
  if (slot == nullptr) return;
  work.heap_.push_back({slot->rank, at, left, right, slot->merged});
  std::push_heap(work.heap_.begin(), work.heap_.end(), [](const auto& a, const auto& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.at > b.at;
  });
}

void Bpe::merge(Work& work, std::vector<std::int32_t>& out) const {
  auto& symbols = work.symbols_;
  auto& heap = work.heap_;
  const auto size = static_cast<std::int32_t>(symbols.size());
  if (size == 0) return;
  symbols.back().after = -1;
  heap.clear();
  for (std::int32_t i = 0; i + 1 < size; ++i) consider(i, work);

  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), [](const auto& a, const auto& b) {
      return a.rank != b.rank ? a.rank > b.rank : a.at > b.at;
    });
    const Work::Candidate best = heap.back();
    heap.pop_back();
    Work::Symbol& left = symbols[best.at];
    // Outdated: one of the two symbols has merged with another.
    if (left.id != best.left || left.after < 0 || symbols[left.after].id != best.right) continue;
    Work::Symbol& right = symbols[left.after];
    left.id = best.merged;
    left.after = right.after;
    right.id = -1;
    if (left.after >= 0) symbols[left.after].before = best.at;
    consider(left.before, work);
    consider(best.at, work);
  }
  for (std::int32_t i = 0; i >= 0; i = symbols[i].after) out.push_back(symbols[i].id);
}

}  // namespace rondo
