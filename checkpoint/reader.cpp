// A hash covers 16 MiB, so a small read needs a whole chunk. Chunks are kept in an LRU cache of
// eight. An evicted chunk leaves the hashes of its blocks, so later reads verify 256 KiB instead of
// the whole chunk. A slot is marked empty until its bytes are verified, so a failed read leaves no
// invalid content. A chunk that is read completely goes directly to `out`. A tensor that was cut is
// read part by part, in the order in which its chunks are stored. A tensor may be in all shards, so
// shards stay open, up to a quarter of the process's limit of open files.
#include "checkpoint/reader.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstring>
#include <tuple>

#include "checkpoint/committed.h"
#include "support/error.h"
#include "support/text/nearest.h"

namespace rondo::checkpoint {
namespace {

constexpr std::size_t kHeldChunks = 8;
constexpr std::int64_t kReadBlockBytes = 256 << 10;

std::vector<std::uint64_t> block_hashes_of(std::span<const std::byte> bytes) {
  std::vector<std::uint64_t> hashes;
  while (!bytes.empty()) {
    const auto block = bytes.first(std::min<std::size_t>(kReadBlockBytes, bytes.size()));
    hashes.push_back(hash_of(block).low);
    bytes = bytes.subspan(block.size());
  }
  return hashes;
}

}  // namespace

Reader::Reader(std::filesystem::path folder)
    : folder_(std::move(folder)), manifest_(read_committed(folder_)) {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  most_open_ = std::max<std::size_t>(1, limit.rlim_cur / 4);
}

const TensorRecord& Reader::tensor_named(std::string_view name) const {
  if (const TensorRecord* tensor = manifest_.find(name)) return *tensor;
  std::vector<std::string> names;
  for (const TensorRecord& t : manifest_.tensors) names.push_back(t.name);
  throw Error(ExitCode::checkpoint,
              fmt::format("{} has no tensor {}{}", folder_.string(), name, did_you_mean(name, names)));
}

void Reader::read(std::string_view name, std::int64_t begin, std::int64_t end, std::span<std::byte> out) {
  const TensorRecord& tensor = tensor_named(name);
  RONDO_ASSERT(0 <= begin && begin <= end && end <= elements_of(tensor.shape, tensor.dtype) &&
                   std::ssize(out) == (end - begin) * dtype_bytes(tensor.dtype),
               fmt::format("[{}, {}) of {} into {} bytes", begin, end, name, out.size()));
  if (tensor.order.row_major()) return read_range(tensor, begin, end, out);
  const ElementRun range{0, begin, end - begin};
  read_runs(tensor, out, [&](const auto& visit) { visit(range); });
}

void Reader::read(std::string_view name, const FlatShard& place, std::span<std::byte> out) {
  const TensorRecord& tensor = tensor_named(name);
  const ElementRange range = range_of(place);
  RONDO_ASSERT(place.sizes() == tensor.shape && std::ssize(out) == range.count() * dtype_bytes(tensor.dtype),
               fmt::format("a shard of {} elements of {} into {} bytes", range.count(), name, out.size()));
  if (tensor.order == range.order) return read_range(tensor, range.begin, range.end, out);
  read_runs(tensor, out, [&](const auto& visit) { place.for_each_run(visit); });
}

// Visits all runs once per stored part, so that chunks are read in the order in which they
// are stored.
void Reader::read_runs(const TensorRecord& tensor, std::span<std::byte> out, const Runs& for_each_run) {
  if (out.empty()) return;
  const OrderedRuns stored(tensor.shape, tensor.order);
  const std::int64_t element_bytes = dtype_bytes(tensor.dtype);
  const std::function<void(const OrderedRun&)> read = [&](const OrderedRun& run) {
    read_range(tensor, run.in_order, run.in_order + run.count,
               out.subspan(static_cast<std::size_t>(run.in_shard * element_bytes),
                           static_cast<std::size_t>(run.count * element_bytes)));
  };
  for (std::int64_t part = 0; part < tensor.order.parts; ++part)
    for_each_run([&](const ElementRun& run) { stored.for_each_in_part(part, run, read); });
}

// Reads elements that are contiguous in the stored order; they may be in several pieces.
void Reader::read_range(const TensorRecord& tensor, std::int64_t begin, std::int64_t end,
                        std::span<std::byte> out) {
  const std::int64_t element_bytes = dtype_bytes(tensor.dtype);
  auto run = std::upper_bound(tensor.runs.begin(), tensor.runs.end(), begin,
                              [](std::int64_t first, const Run& r) { return first < r.end(); });
  while (begin < end) {
    const std::int64_t i = (begin - run->begin) / run->each;
    const std::int64_t piece_begin = run->begin + i * run->each;
    const std::int64_t stop = std::min(end, piece_begin + run->each);
    const auto bytes = static_cast<std::size_t>((stop - begin) * element_bytes);
    read_piece(&tensor - manifest_.tensors.data(), run->shard + i * run->stride, piece_begin, begin,
               out.first(bytes));
    out = out.subspan(bytes);
    begin = stop;
    if (begin == run->end()) ++run;
  }
}

Reader::ShardIndex& Reader::index_of(std::int64_t shard) {
  const auto [at, is_new] = indices_.try_emplace(shard);
  if (is_new) at->second.pieces = pieces_of(manifest_, shard);
  return at->second;
}

void Reader::read_piece(std::int64_t tensor, std::int64_t shard, std::int64_t piece_begin, std::int64_t begin,
                        std::span<std::byte> out) {
  const std::vector<PlacedPiece>& pieces = index_of(shard).pieces;
  const auto piece =
      std::lower_bound(pieces.begin(), pieces.end(), std::pair(tensor, piece_begin),
                       [](const PlacedPiece& p, const std::pair<std::int64_t, std::int64_t>& key) {
                         return std::pair(p.tensor, p.begin) < key;
                       });
  const std::int64_t element_bytes = dtype_bytes(manifest_.tensors[static_cast<std::size_t>(tensor)].dtype);
  read_bytes(shard, piece->offset + (begin - piece->begin) * element_bytes, out);
}

void Reader::read_bytes(std::int64_t shard, std::int64_t offset, std::span<std::byte> out) {
  const std::int64_t shard_bytes = manifest_.shards[static_cast<std::size_t>(shard)].bytes;
  while (!out.empty()) {
    const std::int64_t chunk = offset / kChunkBytes;
    const std::int64_t within = offset % kChunkBytes;
    const std::int64_t chunk_bytes = std::min(kChunkBytes, shard_bytes - chunk * kChunkBytes);
    const auto part = out.first(static_cast<std::size_t>(std::min(std::ssize(out), chunk_bytes - within)));
    if (const HeldChunk* cached = held(shard, chunk)) {
      std::memcpy(part.data(), cached->bytes.data() + within, part.size());
    } else if (std::ssize(part) == chunk_bytes) {  // a whole chunk: directly to `out`
      read_file(shard, offset, part);
      prove(shard, chunk, part);
    } else if (index_of(shard).block_hashes.contains(chunk)) {
      read_blocks(shard, chunk, within, part);
    } else {
      std::memcpy(part.data(), hold(shard, chunk, chunk_bytes).bytes.data() + within, part.size());
    }
    offset += std::ssize(part);
    out = out.subspan(part.size());
  }
}

const File& Reader::opened(std::int64_t shard) {
  if (const auto it = open_.find(shard); it != open_.end()) return it->second;
  if (open_.size() >= most_open_) open_.erase(open_.begin());
  const Shard& record = manifest_.shards[static_cast<std::size_t>(shard)];
  File file = File::open(folder_ / record.file, kUse);
  check_size(folder_ / record.file, file.bytes(), record.bytes);
  return open_.emplace(shard, std::move(file)).first->second;
}

void Reader::read_file(std::int64_t shard, std::int64_t offset, std::span<std::byte> out) {
  with_retries([&] {
    try {
      opened(shard).read_at(offset, out);
    } catch (const FileError&) {
      open_.erase(shard);  // a stale handle must be reopened
      throw;
    }
  });
}

void Reader::prove(std::int64_t shard, std::int64_t chunk, std::span<const std::byte> bytes) const {
  const Shard& record = manifest_.shards[static_cast<std::size_t>(shard)];
  const ChunkHash& expected = record.chunks[static_cast<std::size_t>(chunk)];
  const ChunkHash actual = hash_of(bytes);
  if (actual != expected)
    throw Error(ExitCode::checkpoint,
                chunk_problem(folder_ / record.file, chunk, std::ssize(bytes), actual, expected) +
                    "; use another checkpoint (`rondo checkpoint verify` finds intact ones)");
}

Reader::HeldChunk* Reader::held(std::int64_t shard, std::int64_t chunk) {
  for (HeldChunk& slot : held_) {
    if (slot.shard != shard || slot.chunk != chunk) continue;
    slot.last_use = ++uses_;
    return &slot;
  }
  return nullptr;
}

Reader::HeldChunk& Reader::hold(std::int64_t shard, std::int64_t chunk, std::int64_t bytes) {
  if (held_.size() < kHeldChunks) held_.emplace_back();
  HeldChunk& slot = *std::min_element(held_.begin(), held_.end(), [](const HeldChunk& a, const HeldChunk& b) {
    return a.last_use < b.last_use;
  });
  if (slot.shard >= 0) index_of(slot.shard).block_hashes[slot.chunk] = block_hashes_of(slot.bytes);
  slot.shard = -1;  // empty until its bytes are verified
  slot.last_use = 0;
  slot.bytes.resize(static_cast<std::size_t>(bytes));
  read_file(shard, chunk * kChunkBytes, slot.bytes);
  prove(shard, chunk, slot.bytes);
  slot.shard = shard;
  slot.chunk = chunk;
  slot.last_use = ++uses_;
  return slot;
}

void Reader::read_blocks(std::int64_t shard, std::int64_t chunk, std::int64_t within,
                         std::span<std::byte> out) {
  const Shard& record = manifest_.shards[static_cast<std::size_t>(shard)];
  const std::vector<std::uint64_t>& hashes = index_of(shard).block_hashes.at(chunk);
  const std::int64_t chunk_bytes = std::min(kChunkBytes, record.bytes - chunk * kChunkBytes);
  while (!out.empty()) {
    const std::int64_t block = within / kReadBlockBytes;
    const std::int64_t begin = block * kReadBlockBytes;
    const std::int64_t offset = chunk * kChunkBytes + begin;
    if (block_.shard != shard || block_.offset != offset) {
      block_.shard = -1;  // empty until its bytes are verified
      block_.bytes.resize(static_cast<std::size_t>(std::min(kReadBlockBytes, chunk_bytes - begin)));
      read_file(shard, offset, block_.bytes);
      if (hash_of(block_.bytes).low != hashes[static_cast<std::size_t>(block)])
        throw Error(
            ExitCode::checkpoint,
            fmt::format("{} changed while it was read: chunk {} had the right hash, and then other bytes; "
                        "use another checkpoint (`rondo checkpoint verify` finds intact ones)",
                        (folder_ / record.file).string(), chunk));
      block_.shard = shard;
      block_.offset = offset;
    }
    const std::int64_t from = within - begin;
    const auto part =
        out.first(static_cast<std::size_t>(std::min(std::ssize(out), std::ssize(block_.bytes) - from)));
    std::memcpy(part.data(), block_.bytes.data() + from, part.size());
    within += std::ssize(part);
    out = out.subspan(part.size());
  }
}

}  // namespace rondo::checkpoint
