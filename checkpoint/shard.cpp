// Hashes a block and then writes it while it is in the core's cache, so the data is read from
// memory once. Small pieces are gathered into whole blocks. Blocks end at borders of chunks. A
// complete chunk starts its writeback, so that the final fsync has little left to wait for. The
// exact size is known in advance, since offsets follow from the order. It is reserved first, so a
// full disk fails before any work.
#include "checkpoint/shard.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <tuple>

#include "checkpoint/files.h"

namespace rondo::checkpoint {
namespace {

constexpr std::size_t kWriteBlockBytes = 1 << 20;  // hashed and then written while it is in the core's cache

std::int64_t aligned(std::int64_t offset) { return (offset + kAlignment - 1) / kAlignment * kAlignment; }

// Writes bytes in order to a file and hashes them by chunks. Gathers small pieces into
// whole blocks.
class ShardStream {
 public:
  explicit ShardStream(File& file) : file_(file) { gathered_.reserve(kWriteBlockBytes); }

  std::int64_t position() const { return written_ + static_cast<std::int64_t>(gathered_.size()); }

  void pad_to(std::int64_t offset) {
    static constexpr std::byte kZeros[kAlignment] = {};
    put({kZeros, static_cast<std::size_t>(offset - position())});
  }

  void put(std::span<const std::byte> bytes) {
    if (gathered_.size() + bytes.size() > kWriteBlockBytes) flush();
    if (bytes.size() > kWriteBlockBytes / 4) {
      flush();
      write(bytes);
    } else {
      gathered_.insert(gathered_.end(), bytes.begin(), bytes.end());
    }
  }

  std::vector<ChunkHash> finish() {
    flush();
    if (written_ % kChunkBytes != 0) end_chunk(written_ % kChunkBytes);
    return std::move(chunks_);
  }

 private:
  void flush() {
    write(gathered_);
    gathered_.clear();
  }

  void write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const auto left_in_chunk = static_cast<std::size_t>(kChunkBytes - written_ % kChunkBytes);
      const auto block = bytes.first(std::min({bytes.size(), kWriteBlockBytes, left_in_chunk}));
      hasher_.add(block);
      file_.write_at(written_, block);
      written_ += static_cast<std::int64_t>(block.size());
      if (written_ % kChunkBytes == 0) end_chunk(kChunkBytes);
      bytes = bytes.subspan(block.size());
    }
  }

  void end_chunk(std::int64_t bytes) {
    chunks_.push_back(hasher_.finish());
    file_.start_writeback(written_ - bytes, bytes);
  }

  File& file_;
  std::int64_t written_ = 0;
  std::vector<std::byte> gathered_;
  ChunkHasher hasher_;
  std::vector<ChunkHash> chunks_;
};

void check_piece(const Piece& piece) {
  const std::int64_t elements = elements_of(piece.shape, piece.dtype);
  RONDO_ASSERT(0 <= piece.begin && piece.begin <= piece.end && piece.end <= elements,
               fmt::format("piece [{}, {}) of {}, which has {} elements", piece.begin, piece.end, piece.name,
                           elements));
  const std::string problem = problem_of(piece.order, piece.shape);
  RONDO_ASSERT(problem.empty(), fmt::format("{}: {}", piece.name, problem));
  RONDO_ASSERT(
      static_cast<std::int64_t>(piece.bytes.size()) == (piece.end - piece.begin) * dtype_bytes(piece.dtype),
      fmt::format("{} has {} bytes for elements [{}, {}) of {}", piece.name, piece.bytes.size(), piece.begin,
                  piece.end, piece.dtype));
}

// Sorts pieces into the order of the file.
void sort(std::vector<Piece>& pieces) {
  std::sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) {
    return std::tie(a.name, a.begin, a.end) < std::tie(b.name, b.begin, b.end);
  });
}

std::vector<ChunkHash> write_once(const std::filesystem::path& path, std::span<const Piece> pieces) {
  File file = File::create(path, kUse);
  file.reserve(shard_bytes(pieces));
  ShardStream stream(file);
  for (const Piece& piece : pieces) {
    if (piece.bytes.empty()) continue;
    stream.pad_to(aligned(stream.position()));
    stream.put(piece.bytes);
  }
  std::vector<ChunkHash> chunks = stream.finish();
  file.sync();
  return chunks;
}

}  // namespace

Piece piece_at(const FlatShard& place, std::string name, std::string dtype,
               std::span<const std::byte> shard) {
  const ElementRange range = range_of(place);
  const std::span<const std::byte> bytes =
      shard.first(static_cast<std::size_t>(range.count() * dtype_bytes(dtype)));
  return {.name = std::move(name),
          .dtype = std::move(dtype),
          .shape = place.sizes(),
          .begin = range.begin,
          .end = range.end,
          .bytes = bytes,
          .order = range.order};
}

std::int64_t shard_bytes(std::span<const Piece> pieces) {
  // Each piece except the last is padded; the order decides which one is last.
  const Piece* last = nullptr;
  std::int64_t bytes = 0;
  for (const Piece& piece : pieces) {
    if (piece.bytes.empty()) continue;
    bytes += aligned(static_cast<std::int64_t>(piece.bytes.size()));
    if (last == nullptr || std::tie(last->name, last->begin) < std::tie(piece.name, piece.begin))
      last = &piece;
  }
  if (last == nullptr) return 0;
  const auto last_bytes = static_cast<std::int64_t>(last->bytes.size());
  return bytes - aligned(last_bytes) + last_bytes;
}

ShardRecord write_shard(const std::filesystem::path& folder, int rank, std::vector<Piece> pieces) {
  for (const Piece& piece : pieces) check_piece(piece);
  sort(pieces);
  ShardRecord record{.rank = rank, .bytes = shard_bytes(pieces), .chunks = {}, .pieces = {}};
  with_retries([&] { record.chunks = write_once(folder / shard_file_name(rank), pieces); });
  record.pieces.reserve(pieces.size());
  for (Piece& piece : pieces)
    record.pieces.push_back({.name = std::move(piece.name),
                             .dtype = std::move(piece.dtype),
                             .shape = std::move(piece.shape),
                             .begin = piece.begin,
                             .end = piece.end,
                             .order = piece.order});
  return record;
}

}  // namespace rondo::checkpoint
