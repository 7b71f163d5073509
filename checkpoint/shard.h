// One rank's part of a checkpoint: its pieces, written to one file and hashed on the way.
//
// Any thread may call these; the bytes of the pieces must not change meanwhile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/manifest.h"

namespace rondo::checkpoint {

// A contiguous range of elements of a named tensor. What several ranks hold alike, one of them gives; what
// they hold in parts, each gives its part.
struct Piece {
  std::string name;  // "model/...", "optimizer/...": the caller's business
  std::string dtype;
  std::vector<std::int64_t> shape;  // of the whole tensor; {} is a scalar
  std::int64_t begin = 0, end = 0;  // elements, as `order` counts them
  std::span<const std::byte> bytes;
  ElementOrder order = {};
};

// What a rank holds at `place`. `shard`: its elements, with or without the padding behind them.
Piece piece_at(const FlatShard& place, std::string name, std::string dtype, std::span<const std::byte> shard);

// The exact size of the file that `write_shard` makes of these.
std::int64_t shard_bytes(std::span<const Piece> pieces);

// Writes FOLDER/rank-<rank>.bin, in the format of manifest.h, and fsyncs it. Takes the disk space first, and
// holds at most 1 MiB of its own. What may pass (EIO, ESTALE, ETIMEDOUT) is retried 5 times, from the start
// of the file. Throws FileError; the file is then not to be used.
ShardRecord write_shard(const std::filesystem::path& folder, int rank, std::vector<Piece> pieces);

}  // namespace rondo::checkpoint
