// Reads tensors from a committed checkpoint, written by any ranks, and verifies every byte.
//
// Every 16 MiB chunk is hashed when its first byte is needed. A rank that reads its own shard in
// the order of the manifest reads each byte once. A tensor that was stored with another cut is read
// part by part in its stored order, and each of its chunks is also read once. At most 8 chunks (128
// MiB) are cached. An evicted chunk is read again in blocks of 256 KiB, whose hashes were stored
// after the chunk was verified.
//
// Errors: Error(checkpoint) naming file, chunk, and the actual and expected hash; `out` is then
// undefined. Not thread-safe; one checkpoint may have several Readers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "checkpoint/files.h"
#include "checkpoint/manifest.h"

namespace rondo::checkpoint {

class Reader {
 public:
  // Reads COMMITTED and manifest. Shards are opened when they are first needed.
  explicit Reader(std::filesystem::path folder);

  const std::filesystem::path& folder() const { return folder_; }
  const Manifest& manifest() const { return manifest_; }

  // Reads elements [begin, end) of the flattened (row-major) tensor, stored in any order. REQUIRES:
  // `out` has exactly their size.
  void read(std::string_view tensor, std::int64_t begin, std::int64_t end, std::span<std::byte> out);
  // Reads the elements of the shard `place`, contiguously and without padding. REQUIRES: `place`
  // has the tensor's shape, and `out` has exactly the size of range_of(place).count() elements.
  void read(std::string_view tensor, const FlatShard& place, std::span<std::byte> out);

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
  struct HeldBlock {
    std::int64_t shard = -1, offset = -1;  // in bytes, from the beginning of the shard
    std::vector<std::byte> bytes;
  };

  const TensorRecord& tensor_named(std::string_view name) const;
  using Runs = std::function<void(const std::function<void(const ElementRun&)>& visit)>;
  void read_runs(const TensorRecord& tensor, std::span<std::byte> out, const Runs& for_each_run);
  void read_range(const TensorRecord& tensor, std::int64_t begin, std::int64_t end, std::span<std::byte> out);
  ShardIndex& index_of(std::int64_t shard);
  void read_piece(std::int64_t tensor, std::int64_t shard, std::int64_t piece_begin, std::int64_t begin,
                  std::span<std::byte> out);
  void read_bytes(std::int64_t shard, std::int64_t offset, std::span<std::byte> out);
  const File& opened(std::int64_t shard);
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
  std::size_t most_open_;
  std::unordered_map<std::int64_t, File> open_;  // by shard
  HeldBlock block_;                              // the last block that was read
};

}  // namespace rondo::checkpoint
