#include "checkpoint/chunk_hash.h"

#include <fmt/format.h>
#include <xxhash.h>

namespace rondo::checkpoint {

struct ChunkHasher::State {
  XXH3_state_t xxh3;
};

std::string to_hex(const ChunkHash& hash) { return fmt::format("{:016x}{:016x}", hash.high, hash.low); }

std::optional<ChunkHash> hash_from_hex(std::string_view digits) {
  if (digits.size() != 32) return std::nullopt;
  std::uint64_t words[2] = {0, 0};
  for (std::size_t i = 0; i < 32; ++i) {
    const char c = digits[i];
    const int value = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    if (value < 0) return std::nullopt;
    words[i / 16] = words[i / 16] << 4 | static_cast<std::uint64_t>(value);
  }
  return ChunkHash{words[0], words[1]};
}

ChunkHash hash_of(std::span<const std::byte> bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {hash.high64, hash.low64};
}

ChunkHasher::ChunkHasher() : state_(std::make_unique<State>()) { XXH3_128bits_reset(&state_->xxh3); }
ChunkHasher::~ChunkHasher() = default;

void ChunkHasher::add(std::span<const std::byte> bytes) {
  XXH3_128bits_update(&state_->xxh3, bytes.data(), bytes.size());
}

ChunkHash ChunkHasher::finish() {
  const XXH128_hash_t hash = XXH3_128bits_digest(&state_->xxh3);
  XXH3_128bits_reset(&state_->xxh3);
  return {hash.high64, hash.low64};
}

}  // namespace rondo::checkpoint
