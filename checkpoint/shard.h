// Writes the part of a rank in a checkpoint: its pieces, in one file, hashed as they are written.
//
// Thread-safe. The bytes of the pieces must not change during a call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/manifest.h"

namespace rondo::checkpoint {

// A contiguous range of elements of a named tensor. If several ranks hold the same elements, one of
// them passes a piece. If they hold different parts, each passes its part.
struct Piece {
  std::string name;  // e.g. "model/..." or "optimizer/..."; chosen by the caller
  std::string dtype;
  std::vector<std::int64_t> shape;  // of the whole tensor; {} is a scalar
  std::int64_t begin = 0, end = 0;  // elements, as `order` counts them
  std::span<const std::byte> bytes;
  ElementOrder order = {};
};

// Returns the piece that a rank holds at `place`. `shard`: its elements, with or without the
// padding after them.
Piece piece_at(const FlatShard& place, std::string name, std::string dtype, std::span<const std::byte> shard);

// Returns the exact size of the file that `write_shard` writes.
std::int64_t shard_bytes(std::span<const Piece> pieces);

// Writes FOLDER/rank-<rank>.bin, in the format of manifest.h, and syncs it. Reserves the disk space
// first, and allocates at most 1 MiB. Transient errors (EIO, ESTALE, ETIMEDOUT) are retried 5
// times, from the start of the file. Throws FileError; the file must then not be used.
ShardRecord write_shard(const std::filesystem::path& folder, int rank, std::vector<Piece> pieces);

}  // namespace rondo::checkpoint
