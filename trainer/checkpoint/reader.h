// Reads tensors out of a committed checkpoint, whichever ranks wrote them, and trusts no byte of it.
//
// Every 16 MiB chunk is hashed when its first byte is needed. A rank that reads its own shard in the order of
// the manifest reads each byte once. At most 8 chunks (128 MiB) are held; what is needed again of a chunk
// that was let go is read in blocks of 256 KiB, whose hashes were kept when the chunk had proven right.
//
// Errors: Error(checkpoint) that names file, chunk, and the hash found and expected; `out` is then not to be
// used. Not thread-safe; several Readers of one checkpoint are fine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "trainer/checkpoint/files.h"
#include "trainer/checkpoint/manifest.h"

namespace rondo::checkpoint {

class Reader {
 public:
  // Reads COMMITTED and manifest, and looks at the sizes of all shards.
  explicit Reader(std::filesystem::path folder);

  const Manifest& manifest() const { return manifest_; }

  // Elements [begin, end) of the flattened tensor. REQUIRES: `out` has exactly their size.
  void read(std::string_view tensor, std::int64_t begin, std::int64_t end, std::span<std::byte> out);

 private:
  struct ShardIndex {
    std::vector<PlacedPiece> pieces;
    std::unordered_map<std::int64_t, std::vector<std::uint64_t>> block_hashes;  // by chunk
  };
  struct HeldChunk {
    std::int64_t shard = -1, chunk = -1;
    std::uint64_t last_use = 0;
    std::vector<std::byte> bytes;
  };

  ShardIndex& index_of(std::int64_t shard);
  void read_piece(std::int64_t tensor, std::int64_t shard, std::int64_t piece_begin, std::int64_t begin,
                  std::span<std::byte> out);
  void read_bytes(std::int64_t shard, std::int64_t offset, std::span<std::byte> out);
  void read_file(std::int64_t shard, std::int64_t offset, std::span<std::byte> out);
  void prove(std::int64_t shard, std::int64_t chunk, std::span<const std::byte> bytes) const;
  HeldChunk* held(std::int64_t shard, std::int64_t chunk);
  HeldChunk& hold(std::int64_t shard, std::int64_t chunk, std::int64_t bytes);
  void read_blocks(std::int64_t shard, std::int64_t chunk, std::int64_t within, std::span<std::byte> out);

  std::filesystem::path folder_;
  Manifest manifest_;
  std::unordered_map<std::int64_t, ShardIndex> indices_;
  std::vector<HeldChunk> held_;
  std::uint64_t uses_ = 0;
  std::optional<std::pair<std::int64_t, File>> open_;  // the shard that was read last
  std::vector<std::byte> block_;
};

}  // namespace rondo::checkpoint
