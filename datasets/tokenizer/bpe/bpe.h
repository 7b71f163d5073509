// Encodes one word by byte-pair encoding (Sennrich et al., 2016). Starts with its bytes or its
// characters. While two neighbours have a merge, applies the merge of lowest rank, the leftmost
// first.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "datasets/tokenizer/bpe/short_word_cache.h"
#include "datasets/tokenizer/bpe/word_cache.h"

namespace rondo {

struct BpeMerge {
  std::int32_t left, right, merged;  // ids of at most 21 bits
};

// The alphabet of models whose words begin as characters, e.g. those of SentencePiece. A character
// begins as its token, otherwise as its bytes' tokens (byte_fallback), otherwise as `unknown`.
// Without any of these it is dropped, as in the reference.
struct BpeCharacters {
  std::unordered_map<std::string, std::int32_t> ids = {};  // of all tokens
  std::string prefix = {}, suffix = {};                    // continuing_subword_prefix, end_of_word_suffix
  std::optional<std::int32_t> unknown = {};
  bool fuse_unknown = false;  // neighbours become one `unknown`
  bool byte_fallback = false;
};

constexpr std::size_t kMaxMerges = (1 << 22) - 1;

struct BpeModel {
  std::array<std::int32_t, 256> byte_ids{};  // of the tokens of one byte; -1: dropped
  std::vector<BpeMerge> merges;              // by rank; the last rank counts for a repeated pair
  // By id: the rank of all merges to the token, the leftmost of which comes first. Empty: a merge's
  // rank is its index.
  std::vector<std::uint32_t> token_ranks;
  // Bytes and ids of the tokens that match whole words before any merge (ignore_merges);
  // otherwise empty.
  std::vector<std::pair<std::string, std::int32_t>> whole_words;
  // Empty: words begin as bytes. Otherwise `byte_ids` are those of byte_fallback.
  std::optional<BpeCharacters> characters;
};

// Immutable. Threads share it, each with its own Work.
class Bpe {
 public:
  explicit Bpe(BpeModel model);

  // The workspace of one thread. Used with one Bpe only: the cache contains its ids.
  class Work {
   public:
    std::int64_t dropped = 0;  // bytes or characters without a token, since this was set to 0

   private:
    friend class Bpe;
    struct Symbol {
      std::int32_t id, before, after;  // indices of the neighbours, -1: none; id -1: merged away
    };
    struct Candidate {
      std::uint32_t rank, merge;
      std::int32_t at, left, right;
    };
    std::vector<Symbol> symbols_;
    std::vector<Candidate> heap_;
    ShortWordCache short_words_;
    WordCache cache_;  // of the other words
  };

  // Appends the ids of words: any bytes, or with `characters` valid UTF-8. O(n log n) in their
  // length. The words are not empty and in one text, which is readable up to `readable`.
  void encode(std::span<const std::string_view> words, const char* readable, Work& work,
              std::vector<std::int32_t>& out) const;
  void encode(std::string_view word, Work& work, std::vector<std::int32_t>& out) const {
    if (!word.empty()) encode({&word, 1}, word.data() + word.size(), work, out);
  }

  // Appends the ids of `word` without a cache, by the heap of merges alone: the reference of
  // encode().
  void encode_slowly(std::string_view word, Work& work, std::vector<std::int32_t>& out) const;

  // Appends the ids of single bytes.
  void encode_bytes(std::string_view bytes, Work& work, std::vector<std::int32_t>& out) const;

 private:
  static constexpr int kRankBits = 22;
  static constexpr std::uint32_t kNoRank = (1 << kRankBits) - 1;
  static constexpr std::uint64_t kNoSlot = ~std::uint64_t{0};
  static constexpr std::size_t kFew = 64;

  // Returns the kind of the merge of two tokens, kNoRank without one. Kinds are in the order of
  // their ranks, and are the ranks where levels_ is empty.
  std::uint32_t rank(std::int32_t left, std::int32_t right) const;
  std::size_t first_slot(std::uint64_t pair) const { return (pair * 0x9E3779B97F4A7C15u) >> shift_; }
  void begin_with_bytes(std::string_view word, Work& work) const;
  void begin_with_characters(std::string_view word, Work& work) const;
  void begin(std::string_view word, Work& work) const;
  bool is_whole_word(std::string_view word, std::vector<std::int32_t>& out) const;
  void encode_rare(std::string_view word, const ShortWordCache::Key& key, std::uint32_t bucket, Work& work,
                   std::vector<std::int32_t>& out) const;
  void consider(std::int32_t at, Work& work) const;
  void merge(Work& work, std::vector<std::int32_t>& out) const;
  void merge_few(std::string_view word, std::vector<std::int32_t>& out) const;

  std::array<std::int32_t, 256> byte_ids_;
  std::vector<std::uint64_t> slots_;   // pair << kRankBits | rank; open addressing, at most half full
  std::vector<std::int32_t> merged_;   // by kind
  std::vector<std::uint32_t> levels_;  // by kind: its rank; empty unless several kinds share one
  int shift_;                          // 64 - log2 of the number of slots
  std::unordered_map<std::string, std::int32_t> whole_words_;
  std::optional<BpeCharacters> characters_;
  bool has_all_bytes_;                        // words begin as bytes, which all have tokens; kinds are ranks
  std::vector<std::uint32_t> rank_of_bytes_;  // then: of two bytes, by the first * 256 + the second
};

}  // namespace rondo
