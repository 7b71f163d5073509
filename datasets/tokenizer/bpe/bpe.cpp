// Symbols are a doubly linked list in an array. Possible merges are in a heap ordered by rank, then
// by position: O(n log n), where rescanning would be quadratic. Outdated entries stay in the heap,
// and are dropped when their ids differ from those of the symbols. The table of merges uses open
// addressing with Fibonacci hashing, keyed by the pair of ids, and is at most half full. Whole
// words are cached.
#include "datasets/tokenizer/bpe/bpe.h"

#include <algorithm>
#include <bit>
#include <span>

#include "support/error.h"
#include "support/utf8.h"

namespace rondo {
namespace {

// REQUIRES ids of at most 21 bits.
std::uint64_t pair_of(std::int32_t left, std::int32_t right) {
  return std::uint64_t{static_cast<std::uint32_t>(left)} << 21 | static_cast<std::uint32_t>(right);
}

// Returns the kinds of merges, by rank: merges to one token are of one kind. Empty where the rank
// of a merge is its index.
std::vector<std::pair<std::uint32_t, std::int32_t>> kinds_of(const BpeModel& model) {
  std::vector<std::pair<std::uint32_t, std::int32_t>> kinds;
  if (model.token_ranks.empty()) return kinds;
  for (const BpeMerge& merge : model.merges)
    kinds.emplace_back(model.token_ranks[merge.merged], merge.merged);
  std::sort(kinds.begin(), kinds.end());
  kinds.erase(std::unique(kinds.begin(), kinds.end()), kinds.end());
  return kinds;
}

}  // namespace

Bpe::Bpe(BpeModel model) : byte_ids_(model.byte_ids), characters_(std::move(model.characters)) {
  RONDO_ASSERT(model.merges.size() <= kMaxMerges, "a model has at most kMaxMerges merges");
  const std::size_t size = std::bit_ceil(2 * model.merges.size() + 2);
  slots_.resize(size, kNoSlot);
  shift_ = 64 - std::countr_zero(size);
  const auto kinds = kinds_of(model);
  for (const auto& [rank, merged] : kinds) {
    levels_.push_back(rank);
    merged_.push_back(merged);
  }
  if (std::adjacent_find(levels_.begin(), levels_.end()) == levels_.end()) levels_.clear();
  for (std::size_t index = 0; index < model.merges.size(); ++index) {
    const BpeMerge& merge = model.merges[index];
    const std::uint64_t pair = pair_of(merge.left, merge.right);
    std::size_t i = first_slot(pair);
    while (slots_[i] >> kRankBits != pair && slots_[i] != kNoSlot) i = (i + 1) & (size - 1);
    std::uint64_t kind = index;
    if (kinds.empty()) {
      merged_.push_back(merge.merged);
    } else {
      const std::pair known{model.token_ranks[merge.merged], merge.merged};
      kind = static_cast<std::uint64_t>(std::lower_bound(kinds.begin(), kinds.end(), known) - kinds.begin());
    }
    slots_[i] = pair << kRankBits | kind;
  }
  merged_.push_back(0);  // merge_few() reads one even where there are no merges
  whole_words_.insert(model.whole_words.begin(), model.whole_words.end());
  has_all_bytes_ =
      !characters_ && levels_.empty() && *std::min_element(byte_ids_.begin(), byte_ids_.end()) >= 0;
  if (!has_all_bytes_) return;
  for (const std::int32_t left : byte_ids_)
    for (const std::int32_t right : byte_ids_) rank_of_bytes_.push_back(rank(left, right));
}

std::uint32_t Bpe::rank(std::int32_t left, std::int32_t right) const {
  const std::uint64_t pair = pair_of(left, right);
  std::size_t i = first_slot(pair);
  while (slots_[i] >> kRankBits != pair) {
    if (slots_[i] == kNoSlot) return kNoRank;
    i = (i + 1) & (slots_.size() - 1);
  }
  return static_cast<std::uint32_t>(slots_[i] & kNoRank);
}

// Ids of short words are gathered in a buffer. Each is looked up a few words after its bucket is
// requested from memory.
void Bpe::encode(std::span<const std::string_view> words, const char* readable, Work& work,
                 std::vector<std::int32_t>& out) const {
  constexpr std::size_t kMaxWords = 64;
  std::array<ShortWordCache::Key, kMaxWords> keys;
  std::array<std::uint32_t, kMaxWords> buckets;
  std::array<std::int32_t, kMaxWords * ShortWordCache::kMaxIds> ids;
  while (!words.empty()) {
    const auto some = words.first(std::min(words.size(), kMaxWords));
    words = words.subspan(some.size());
    for (std::size_t i = 0; i < some.size(); ++i) {
      keys[i] = some[i].size() <= ShortWordCache::kMaxBytes ? ShortWordCache::key(some[i], readable)
                                                            : ShortWordCache::Key{};
      buckets[i] = ShortWordCache::bucket(keys[i]);
      work.short_words_.prefetch(buckets[i]);
    }
    std::size_t count = 0;
    for (std::size_t i = 0; i < some.size(); ++i) {
      const std::size_t known = work.short_words_.find(keys[i], buckets[i], &ids[count]);
      count += known;
      if (known > 0) continue;
      out.insert(out.end(), ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(count));
      count = 0;
      encode_rare(some[i], keys[i], buckets[i], work, out);
    }
    out.insert(out.end(), ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(count));
  }
}

// Appends the ids of a word for which short_words_ has none. Words with dropped bytes are not
// cached: they would not be counted again.
void Bpe::encode_rare(std::string_view word, const ShortWordCache::Key& key, std::uint32_t bucket, Work& work,
                      std::vector<std::int32_t>& out) const {
  const bool is_short = word.size() <= ShortWordCache::kMaxBytes;
  if (!is_short || work.short_words_.is_elsewhere(key, bucket)) {
    if (work.cache_.find(word, out)) return;
  }
  const std::size_t first_new = out.size();
  const std::int64_t dropped_before = work.dropped;
  if (!is_whole_word(word, out)) {
    if (has_all_bytes_ && word.size() <= kFew) {
      merge_few(word, out);
    } else {
      begin(word, work);
      merge(work, out);
    }
  }
  const auto ids = std::span(out).subspan(first_new);
  if (work.dropped > dropped_before) return;
  const bool is_elsewhere = !is_short || ids.size() > ShortWordCache::kMaxIds;
  if (is_short) work.short_words_.keep(key, bucket, is_elsewhere ? ids.first(0) : ids);
  if (is_elsewhere) work.cache_.keep(word, ids);
}

void Bpe::encode_slowly(std::string_view word, Work& work, std::vector<std::int32_t>& out) const {
  if (is_whole_word(word, out)) return;
  begin(word, work);
  merge(work, out);
}

bool Bpe::is_whole_word(std::string_view word, std::vector<std::int32_t>& out) const {
  const auto match = whole_words_.empty() ? whole_words_.end() : whole_words_.find(std::string(word));
  if (match == whole_words_.end()) return false;
  out.push_back(match->second);
  return true;
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

void Bpe::begin(std::string_view word, Work& work) const {
  characters_ ? begin_with_characters(word, work) : begin_with_bytes(word, work);
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
  const std::uint32_t merge = rank(left, right);
  if (merge == kNoRank) return;
  work.heap_.push_back({levels_.empty() ? merge : levels_[merge], merge, at, left, right});
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
    left.id = merged_[best.merge];
    left.after = right.after;
    right.id = -1;
    if (left.after >= 0) symbols[left.after].before = best.at;
    consider(left.before, work);
    consider(best.at, work);
  }
  for (std::int32_t i = 0; i >= 0; i = symbols[i].after) out.push_back(symbols[i].id);
}

// As merge(), for at most kFew bytes that all have tokens: all ranks are compared, which is faster
// than a heap of so few. A symbol is at the position of its first byte.
void Bpe::merge_few(std::string_view word, std::vector<std::int32_t>& out) const {
  constexpr std::uint64_t kNone = std::uint64_t{kNoRank} << 32;
  std::array<std::int32_t, kFew> ids, merged;
  std::array<std::uint64_t, kFew> keys;  // the rank of the merge with the successor, then the position
  std::array<std::uint8_t, kFew> before, after;
  const auto size = static_cast<std::uint32_t>(word.size());
  // Reads the merged token before it is needed, so that the loop does not wait for it.
  const auto set_rank = [&](std::uint32_t at, std::uint32_t rank) {
    keys[at] = std::uint64_t{rank} << 32 | at;
    merged[at] = merged_[rank == kNoRank ? 0 : rank];
  };
  for (std::uint32_t i = 0; i < size; ++i) {
    const std::size_t byte = static_cast<unsigned char>(word[i]);
    ids[i] = byte_ids_[byte];
    before[i] = static_cast<std::uint8_t>(i - 1);
    after[i] = static_cast<std::uint8_t>(i + 1);
    set_rank(i, i + 1 < size ? rank_of_bytes_[byte << 8 | static_cast<unsigned char>(word[i + 1])] : kNoRank);
  }
  for (;;) {
    std::uint64_t least = kNone;
    for (std::uint32_t i = 0; i + 1 < size; ++i) least = std::min(least, keys[i]);
    if (least == kNone) break;
    const auto at = static_cast<std::uint32_t>(least);
    const std::uint32_t taken = after[at], next = after[taken];
    ids[at] = merged[at];
    after[at] = static_cast<std::uint8_t>(next);
    if (next < size) before[next] = static_cast<std::uint8_t>(at);
    keys[taken] = kNone;
    set_rank(at, next < size ? rank(ids[at], ids[next]) : kNoRank);
    if (at > 0) set_rank(before[at], rank(ids[before[at]], ids[at]));
  }
  for (std::uint32_t i = 0; i < size; i = after[i]) out.push_back(ids[i]);
}

}  // namespace rondo
