// Caches the ids of recent words. Direct-mapped: each word has one slot, and the last word of a
// slot stays. Fixed memory.
#pragma once

#include <xxhash.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace rondo {

// One per thread.
class WordCache {
 public:
  // Appends the ids of `word` and returns true if they are cached.
  bool find(std::string_view word, std::vector<std::int32_t>& out) const {
    if (word.size() > kMaxBytes) return false;
    const Slot& slot = slots_[index(word)];
    if (slot.length != word.size() || std::memcmp(slot.bytes.data(), word.data(), word.size()) != 0)
      return false;
    out.insert(out.end(), slot.ids.begin(), slot.ids.begin() + slot.count);
    return true;
  }

  // Caches the ids of `word`, except for long words and words of many ids. REQUIRES: `word` is
  // not empty.
  void keep(std::string_view word, std::span<const std::int32_t> ids) {
    if (word.size() > kMaxBytes || ids.size() > kMaxIds) return;
    Slot& slot = slots_[index(word)];
    slot.length = static_cast<std::uint8_t>(word.size());
    slot.count = static_cast<std::uint8_t>(ids.size());
    std::memcpy(slot.bytes.data(), word.data(), word.size());
    std::copy(ids.begin(), ids.end(), slot.ids.begin());
  }

 private:
  static constexpr std::size_t kSlots = 1 << 14;  // 2 MiB
  static constexpr std::size_t kMaxBytes = 54, kMaxIds = 18;
  struct Slot {  // 128 bytes
    std::uint8_t length = 0, count = 0;
    std::array<char, kMaxBytes> bytes;
    std::array<std::int32_t, kMaxIds> ids;
  };

  static std::size_t index(std::string_view word) { return XXH3_64bits(word.data(), word.size()) % kSlots; }

  std::vector<Slot> slots_ = std::vector<Slot>(kSlots);
};

}  // namespace rondo
