// Evenly split tensors are stored as runs. A piece that continues the last run with the same length
// and stride only increments its count, so the number of runs does not grow with the ranks. check()
// trusts nothing. It bounds every count before it is used in arithmetic, requires that runs cover
// each element once, and derives the length of every shard from its pieces. Offsets follow from the
// order, so they cannot be wrong.
#include "checkpoint/manifest.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

#include "support/error.h"

namespace rondo::checkpoint {
namespace {

constexpr std::int64_t kMaxShards = 1 << 16;
constexpr std::int64_t kMaxPieces = 1 << 26;
constexpr std::int64_t kMaxBytes = std::int64_t{1} << 60;
constexpr std::size_t kMaxName = 1024;
constexpr std::size_t kMaxAxes = 16;

std::int64_t aligned(std::int64_t offset) { return (offset + kAlignment - 1) / kAlignment * kAlignment; }

// Inserts a piece at its first element, or appends it to the preceding run if it continues
// that run.
void insert(std::vector<Run>& runs, std::int64_t shard, std::int64_t begin, std::int64_t end) {
  const auto next = std::upper_bound(runs.begin(), runs.end(), begin,
                                     [](std::int64_t first, const Run& run) { return first < run.begin; });
  if (next != runs.begin()) {
    Run& before = *std::prev(next);
    const std::int64_t stride = before.shards == 1 ? shard - before.shard : before.stride;
    if (before.end() == begin && before.each == end - begin && stride != 0 &&
        before.shard + before.shards * stride == shard) {
      before.stride = stride;
      ++before.shards;
      return;
    }
  }
  runs.insert(next, Run{.shard = shard, .begin = begin, .each = end - begin});
}

// Describes a tensor or piece: "f32[4, 2]", and how it is cut.
template <typename Record>
std::string kind_of(const Record& record) {
  const ElementOrder& order = record.order;
  return fmt::format("{}[{}]", record.dtype, fmt::join(record.shape, ", ")) +
         (order.row_major() ? "" : fmt::format(" cut into {} along dimension {}", order.parts, order.dim)) +
         (order.blocks == 1 ? "" : fmt::format(" of {} blocks", order.blocks));
}

void check_shards(const Manifest& manifest, std::string_view where) {
  if (manifest.shards.empty()) refuse_manifest(where, "it names no shard");
  if (std::ssize(manifest.shards) > kMaxShards)
    refuse_manifest(where, fmt::format("it names more than {} shards", kMaxShards));
  const std::string* before = nullptr;
  for (const Shard& shard : manifest.shards) {
    const std::string& file = shard.file;
    const bool plain =
        file.size() == shard_file_name(0).size() && file.starts_with("rank-") && file.ends_with(".bin") &&
        std::all_of(file.begin() + 5, file.end() - 4, [](char c) { return c >= '0' && c <= '9'; });
    if (!plain)
      refuse_manifest(where, fmt::format("\"{}\" is not the name of a shard (rank-00000.bin)", file));
    if (before != nullptr && *before >= file)
      refuse_manifest(where, fmt::format("{} comes after {}", file, *before));
    if (shard.bytes < 0 || shard.bytes > kMaxBytes)
      refuse_manifest(where, fmt::format("{} cannot have {} bytes", file, shard.bytes));
    if (std::ssize(shard.chunks) != chunks_of(shard.bytes))
      refuse_manifest(where, fmt::format("{} has {} bytes and so {} chunks, but {} hashes", file, shard.bytes,
                                         chunks_of(shard.bytes), shard.chunks.size()));
    before = &file;
  }
}

void check_run(const Run& run, std::int64_t shards, std::int64_t elements, std::int64_t covered,
               const std::string& tensor) {
  if (run.begin > covered)
    refuse_manifest(tensor, fmt::format("elements [{}, {}) are in no shard", covered, run.begin));
  if (run.begin < covered)
    refuse_manifest(tensor, fmt::format("element {} is in more than one piece", run.begin));
  const bool counts = run.shard >= 0 && run.shard < shards && run.shards >= 1 && run.shards <= shards &&
                      run.each >= 1 && run.stride != 0 && run.stride > -kMaxShards && run.stride < kMaxShards;
  const std::int64_t last = counts ? run.shard + (run.shards - 1) * run.stride : -1;
  if (!counts || last < 0 || last >= shards)
    refuse_manifest(tensor, fmt::format("the run [{}, {}, {}, {}, {}] exceeds the {} shards", run.shard,
                                        run.stride, run.shards, run.begin, run.each, shards));
  if (run.each > (elements - run.begin) / run.shards)
    refuse_manifest(tensor, fmt::format("the run from element {} ends after the last one", run.begin));
}

}  // namespace

void refuse_manifest(std::string_view where, const std::string& rule) {
  throw Error(ExitCode::checkpoint, fmt::format("{}: {}", where, rule));
}

std::int64_t dtype_bytes(std::string_view dtype) {
  static constexpr std::array<std::pair<std::string_view, int>, 12> kDtypes = {{{"f64", 8},
                                                                                {"f32", 4},
                                                                                {"bf16", 2},
                                                                                {"f16", 2},
                                                                                {"f8_e4m3", 1},
                                                                                {"f8_e5m2", 1},
                                                                                {"i64", 8},
                                                                                {"i32", 4},
                                                                                {"i16", 2},
                                                                                {"i8", 1},
                                                                                {"u8", 1},
                                                                                {"b8", 1}}};
  for (const auto& [name, bytes] : kDtypes)
    if (name == dtype) return bytes;
  throw Error(ExitCode::checkpoint, fmt::format("\"{}\" is not a dtype of checkpoints", dtype));
}

std::string shard_file_name(int rank) { return fmt::format("rank-{:05}.bin", rank); }

std::int64_t chunks_of(std::int64_t bytes) { return (bytes + kChunkBytes - 1) / kChunkBytes; }

std::int64_t elements_of(const std::vector<std::int64_t>& shape, std::string_view dtype) {
  std::int64_t elements = 1;
  bool fits = shape.size() <= kMaxAxes, empty = false;
  for (const std::int64_t size : shape) {
    fits = fits && size >= 0;
    if (size == 0)
      empty = true;
    else
      fits = fits && !__builtin_mul_overflow(elements, size, &elements);
  }
  if (!fits || elements > kMaxBytes / dtype_bytes(dtype))
    throw Error(ExitCode::checkpoint, fmt::format("the shape [{}] of {} is not the shape of a tensor",
                                                  fmt::join(shape, ", "), dtype));
  return empty ? 0 : elements;
}

void Manifest::add(const ShardRecord& record) {
  const std::string file = shard_file_name(record.rank);
  RONDO_ASSERT(shards.empty() || shards.back().file < file, "ranks must be added in ascending order");
  const std::int64_t shard = std::ssize(shards);
  shards.push_back({file, record.bytes, record.chunks});
  auto at = tensors.begin();
  for (const PieceRecord& piece : record.pieces) {
    // Ranks record pieces in the order of names, and mostly the same names, so the next entry
    // nearly always matches.
    if (at != tensors.end() && at->name != piece.name) ++at;
    if (at == tensors.end() || at->name != piece.name)
      at = std::lower_bound(tensors.begin(), tensors.end(), piece.name,
                            [](const TensorRecord& t, const std::string& name) { return t.name < name; });
    if (at == tensors.end() || at->name != piece.name)
      at = tensors.insert(
          at,
          {.name = piece.name, .dtype = piece.dtype, .shape = piece.shape, .runs = {}, .order = piece.order});
    if (at->dtype != piece.dtype || at->shape != piece.shape || at->order != piece.order)
      throw Error(ExitCode::checkpoint, fmt::format("ranks disagree about tensor {}: {}, and {} in {}",
                                                    piece.name, kind_of(*at), kind_of(piece), file));
    if (piece.begin < piece.end) insert(at->runs, shard, piece.begin, piece.end);
  }
}

const TensorRecord* Manifest::find(std::string_view tensor) const {
  const auto at =
      std::lower_bound(tensors.begin(), tensors.end(), tensor,
                       [](const TensorRecord& t, std::string_view name) { return t.name < name; });
  return at != tensors.end() && at->name == tensor ? &*at : nullptr;
}

std::int64_t Manifest::bytes() const {
  std::int64_t sum = 0;
  for (const Shard& shard : shards) sum += shard.bytes;
  return sum;
}

std::vector<PlacedPiece> pieces_of(const Manifest& manifest, std::int64_t shard) {
  std::vector<PlacedPiece> pieces;
  std::int64_t end = 0;
  for (std::int64_t t = 0; t < std::ssize(manifest.tensors); ++t) {
    const TensorRecord& tensor = manifest.tensors[static_cast<std::size_t>(t)];
    const std::int64_t element_bytes = dtype_bytes(tensor.dtype);
    for (const Run& run : tensor.runs) {
      const std::int64_t i = (shard - run.shard) / run.stride;
      if (i < 0 || i >= run.shards || run.shard + i * run.stride != shard) continue;
      const std::int64_t begin = run.begin + i * run.each;
      pieces.push_back({.tensor = t, .begin = begin, .end = begin + run.each, .offset = aligned(end)});
      end = pieces.back().offset + run.each * element_bytes;
    }
  }
  return pieces;
}

void check(const Manifest& manifest, std::string_view where) {
  if (manifest.step < 0) refuse_manifest(where, fmt::format("step {} is negative", manifest.step));
  check_shards(manifest, where);
  const std::int64_t shards = std::ssize(manifest.shards);
  std::vector<std::int64_t> ends(manifest.shards.size());
  std::int64_t pieces = 0;
  const std::string* before = nullptr;
  for (const TensorRecord& tensor : manifest.tensors) {
    const std::string here = fmt::format("{}: tensor {}", where, tensor.name);
    if (tensor.name.empty() || tensor.name.size() > kMaxName)
      refuse_manifest(where, fmt::format("a tensor's name has 1 to {} bytes", kMaxName));
    if (before != nullptr && *before >= tensor.name) refuse_manifest(here, "comes after " + *before);
    before = &tensor.name;
    const std::int64_t elements = elements_of(tensor.shape, tensor.dtype);
    const std::int64_t element_bytes = dtype_bytes(tensor.dtype);
    if (const std::string problem = problem_of(tensor.order, tensor.shape); !problem.empty())
      refuse_manifest(here, problem);
    std::int64_t covered = 0;
    for (const Run& run : tensor.runs) {
      check_run(run, shards, elements, covered, here);
      if ((pieces += run.shards) > kMaxPieces)
        refuse_manifest(where, fmt::format("it has more than {} pieces", kMaxPieces));
      for (std::int64_t i = 0; i < run.shards; ++i) {
        std::int64_t& end = ends[static_cast<std::size_t>(run.shard + i * run.stride)];
        end = aligned(end) + run.each * element_bytes;
        if (end > kMaxBytes) refuse_manifest(here, "its shard cannot be that long");
      }
      covered = run.end();
    }
    if (covered != elements)
      refuse_manifest(here, fmt::format("elements [{}, {}) are in no shard", covered, elements));
  }
  for (std::size_t i = 0; i < ends.size(); ++i)
    if (ends[i] != manifest.shards[i].bytes)
      refuse_manifest(where, fmt::format("the pieces in {} need {} bytes, but it has {}",
                                         manifest.shards[i].file, ends[i], manifest.shards[i].bytes));
}

}  // namespace rondo::checkpoint
