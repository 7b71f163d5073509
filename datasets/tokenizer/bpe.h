// Encodes one word by byte-pair encoding (Sennrich et al., 2016). Starts with its bytes or its
// characters. While two neighbours have a merge, applies the merge of lowest rank, the leftmost
// first.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "datasets/tokenizer/word_cache.h"

namespace rondo {

struct BpeMerge {
  std::int32_t left, right, merged;  // ids
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
      std::uint32_t rank;
      std::int32_t at, left, right, merged;
    };
    std::vector<Symbol> symbols_;
    std::vector<Candidate> heap_;
    WordCache cache_;
  };

  // Appends the ids of `word`: any bytes, or with `characters` valid UTF-8. O(n log n) in its length.
  void encode(std::string_view word, Work& work, std::vector<std::int32_t>& out) const;

  // Appends the ids of single bytes.
  void encode_bytes(std::string_view bytes, Work& work, std::vector<std::int32_t>& out) const;

 private:
  struct Slot {
    std::uint64_t pair = kNoPair;
    std::uint32_t rank = 0;
    std::int32_t merged = 0;
  };
  static constexpr std::uint64_t kNoPair = ~std::uint64_t{0};

  const Slot* find(std::int32_t left, std::int32_t right) const;
  std::size_t first_slot(std::uint64_t pair) const { return (pair * 0x9E3779B97F4A7C15u) >> shift_; }
  void begin_with_bytes(std::string_view word, Work& work) const;
  void begin_with_characters(std::string_view word, Work& work) const;
  void consider(std::int32_t at, Work& work) const;
  void merge(Work& work, std::vector<std::int32_t>& out) const;

  std::array<std::int32_t, 256> byte_ids_;
  std::vector<Slot> slots_;  // open addressing, at most half full
  int shift_;                // 64 - log2 of the number of slots
  std::unordered_map<std::string, std::int32_t> whole_words_;
  std::optional<BpeCharacters> characters_;
};

}  // namespace rondo
