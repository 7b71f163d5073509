// Caches the ids of recent words of at most 15 bytes and 4 ids, which nearly all words of a text
// are. A word is two integers, so that it is loaded, hashed and compared without a loop. Each word
// has a bucket of two places, one cache line; a new word takes the first, the last one moves to the
// second. Fixed memory.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace rondo {

// One per thread.
class ShortWordCache {
 public:
  static constexpr std::size_t kMaxBytes = 15, kMaxIds = 4;

  // The bytes of a word, then zeros; bits 56 to 59 of `high` are its length.
  struct Key {
    std::uint64_t low, high;
  };
  // Bytes before `readable` may be read, also behind the word. REQUIRES 1 to kMaxBytes bytes.
  static Key key(std::string_view word, const char* readable) {
    std::array<char, 16> copy{};
    const char* bytes = word.data();
    if (readable - bytes < std::ssize(copy))
      bytes = std::copy_n(bytes, word.size(), copy.data()) - word.size();
    Key key;
    std::memcpy(&key, bytes, sizeof key);
    const Key& mask = kMasks[word.size()];
    return {key.low & mask.low, (key.high & mask.high) | std::uint64_t{word.size()} << 56};
  }

  // The bucket of a word.
  static std::uint32_t bucket(const Key& key) {
    const auto product =
        static_cast<unsigned __int128>(key.low ^ 0x9E3779B97F4A7C15u) * (key.high ^ 0xD6E8FEB86659FD93u);
    return static_cast<std::uint32_t>(static_cast<std::uint64_t>(product) ^
                                      static_cast<std::uint64_t>(product >> 64)) %
           kBuckets;
  }
  void prefetch(std::uint32_t bucket) const { __builtin_prefetch(&buckets_[bucket]); }

  // Returns how many ids the word has, 0 if it is not cached. Writes kMaxIds numbers to `out`:
  // first the ids.
  std::size_t find(const Key& key, std::uint32_t bucket, std::int32_t* out) const {
    const auto& [first, second] = buckets_[bucket];
    const Place& place = is_in(first, key) ? first : second;
    if (!is_in(place, key)) return 0;
    std::memcpy(out, place.ids.data(), sizeof place.ids);
    return static_cast<std::size_t>(place.high >> 60);
  }

  // Returns whether keep() was called for the word without ids.
  bool is_elsewhere(const Key& key, std::uint32_t bucket) const {
    const auto& [first, second] = buckets_[bucket];
    return is_in(first, key) || is_in(second, key);
  }

  // REQUIRES: find() has no ids of the word. Without `ids` the word is known to be elsewhere.
  void keep(const Key& key, std::uint32_t bucket, std::span<const std::int32_t> ids) {
    auto& [first, second] = buckets_[bucket];
    if (!is_in(first, key)) second = first;
    first = {key.low, key.high | std::uint64_t{ids.size()} << 60, {}};
    std::copy(ids.begin(), ids.end(), first.ids.begin());
  }

 private:
  static constexpr std::size_t kBuckets = 1 << 17;  // 8 MiB
  struct Place {
    std::uint64_t low = 0, high = 0;  // of the key; the upper 4 bits of `high` are the number of ids
    std::array<std::int32_t, kMaxIds> ids;
  };
  struct alignas(64) Bucket {
    Place first, second;
  };

  static constexpr std::array<Key, 16> kMasks = [] {
    std::array<Key, 16> masks{};
    for (std::size_t size = 0; size < 16; ++size)
      for (std::size_t i = 0; i < size; ++i)
        (i < 8 ? masks[size].low : masks[size].high) |= std::uint64_t{0xFF} << i % 8 * 8;
    return masks;
  }();

  static bool is_in(const Place& place, const Key& key) {
    return ((place.low ^ key.low) | ((place.high ^ key.high) << 4)) == 0;
  }

  std::vector<Bucket> buckets_ = std::vector<Bucket>(kBuckets);
};

}  // namespace rondo
