// Symbols are a doubly linked list in an array. Possible merges are in a heap ordered by rank, then
// by position: O(n log n), where rescanning would be quadratic. Outdated entries stay in the heap,
// and are dropped when their ids differ from those of the symbols. The table of merges uses open
// addressing with Fibonacci hashing, keyed by the pair of ids, and is at most half full. Whole
// words are cached.
#include "datasets/tokenizer/bpe.h"

#include <algorithm>
#include <bit>
#include <span>

namespace rondo {
namespace {

std::uint64_t pair_of(std::int32_t left, std::int32_t right) {
  return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
}

}  // namespace

Bpe::Bpe(const BpeModel& model) : byte_ids_(model.byte_ids) {
  const std::size_t size = std::bit_ceil(2 * model.merges.size() + 2);
  slots_.resize(size);
  shift_ = 64 - std::countr_zero(size);
  for (std::uint32_t rank = 0; rank < model.merges.size(); ++rank) {
    const BpeMerge& merge = model.merges[rank];
    const std::uint64_t pair = pair_of(merge.left, merge.right);
    std::size_t i = first_slot(pair);
    while (slots_[i].pair != pair && slots_[i].pair != kNoPair) i = (i + 1) % size;
    slots_[i] = {pair, rank, merge.merged};
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
  if (word.size() == 1) return out.push_back(byte_ids_[static_cast<unsigned char>(word[0])]);
  if (work.cache_.find(word, out)) return;
  const std::size_t first_new = out.size();
  const auto match = whole_words_.empty() ? whole_words_.end() : whole_words_.find(std::string(word));
  if (match != whole_words_.end())
    out.push_back(match->second);
  else
    merge(word, work, out);
  work.cache_.keep(word, std::span(out).subspan(first_new));
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

void Bpe::merge(std::string_view word, Work& work, std::vector<std::int32_t>& out) const {
  auto& symbols = work.symbols_;
  auto& heap = work.heap_;
  const auto size = static_cast<std::int32_t>(word.size());
  symbols.resize(word.size());
  heap.clear();
  for (std::int32_t i = 0; i < size; ++i)
    symbols[i] = {byte_ids_[static_cast<unsigned char>(word[i])], i - 1, i + 1 < size ? i + 1 : -1};
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
