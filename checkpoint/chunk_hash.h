// XXH3-128 hashes of chunks of bytes. As text they are 32 lowercase hexadecimal digits, most
// significant first (the canonical form, as printed by `xxh128sum`).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace rondo::checkpoint {

struct ChunkHash {
  std::uint64_t high = 0, low = 0;
  bool operator==(const ChunkHash&) const = default;
};

std::string to_hex(const ChunkHash& hash);
std::optional<ChunkHash> hash_from_hex(std::string_view digits);  // exactly 32 of [0-9a-f]
ChunkHash hash_of(std::span<const std::byte> bytes);

// Hashes bytes that are added in parts.
class ChunkHasher {
 public:
  ChunkHasher();
  ~ChunkHasher();
  ChunkHasher(const ChunkHasher&) = delete;
  ChunkHasher& operator=(const ChunkHasher&) = delete;

  void add(std::span<const std::byte> bytes);
  ChunkHash finish();  // also resets the hasher

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rondo::checkpoint
