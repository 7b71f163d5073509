// The manifest of a checkpoint: its tensors and where each element is stored, as data and
// as `manifest.json`.
//
// The format, version 1. A checkpoint is a folder of
//   rank-00000.bin ...  shards: the raw little-endian bytes of pieces, and nothing else
//   manifest.json       described below
//   COMMITTED           one line with the manifest's hash (committed.h), written last
// A *piece* is a range of elements of one tensor, counted row-major, or part-major if the tensor
// has a "cut" (element_order.h, Note [Part-major]). A shard stores its pieces in ascending order of
// (tensor name by bytes, first element). Each piece begins at the next multiple of 64 bytes, with
// zeros between. So offsets follow from the order and are not stored. Hashes are XXH3-128
// (chunk_hash.h) of each 16 MiB of a shard; the last chunk is the remainder.
//
// manifest.json is one object:
//   "format": 1, "step", "run", "kind": "full" | "model", "created": "2026-01-31T12:00:00.123Z",
//   "model": {"name", "sizes" (text), "fingerprint"}, "config_hash",
//   "settings": ["optimizer.lr = 0.0008", ...] (absent: unknown),
//   "train_state": {"step", "schedule_step", "tokens_seen", "went_back_to",
//     "began_anew": {part: step, ...}} (a list of parts in older versions),
//   "data": {"step", "sample", "seed", "seq_len", "shuffle", "fingerprint", "content" (absent:
//   unknown)} ("train_state" and "data" are {} for imported weights),
//   "layout", "random": objects that the trainer defines,
//   "shards": [{"file", "bytes", "chunks": all hashes in one string, 32 digits each}, ...] by rank,
//   "tensors": [{"name", "dtype", "shape", "runs": [[shard, stride, shards, begin, each], ...],
//                "cut": [dim, parts] or [dim, parts, blocks] (absent: row-major)}, ...] by name
// A *run* says that shard `shard + i * stride` (an index into "shards") holds elements [begin + i *
// each, begin + (i + 1) * each), for all i < shards. Ranks that split a tensor evenly are one run,
// for any number of ranks. So apart from the hashes, the manifest of 4,096 ranks is as short as for
// 8. The runs of a tensor, in order, cover each of its elements exactly once. dtype: f64 f32 bf16
// f16 f8_e4m3 f8_e5m2 i64 i32 i16 i8 u8 b8.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/chunk_hash.h"
#include "checkpoint/element_order.h"

namespace rondo::checkpoint {

inline constexpr std::int64_t kChunkBytes = 16 << 20;
inline constexpr std::int64_t kAlignment = 64;
inline constexpr std::int64_t kMaxManifestBytes = 64 << 20;

// Returns the bytes of one element. Throws Error(checkpoint) for a dtype that is not in the
// list above.
std::int64_t dtype_bytes(std::string_view dtype);
std::string shard_file_name(int rank);  // "rank-00012.bin"
std::int64_t chunks_of(std::int64_t bytes);

// --- the record of one rank's shard ---

struct PieceRecord {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;  // of the whole tensor; {} is a scalar
  std::int64_t begin = 0, end = 0;  // elements, as `order` counts them
  ElementOrder order = {};          // the same on all ranks
  bool operator==(const PieceRecord&) const = default;
};

struct ShardRecord {
  int rank = 0;
  std::int64_t bytes = 0;
  std::vector<ChunkHash> chunks;
  std::vector<PieceRecord> pieces;  // in the order of the file; empty ranges are included
  bool operator==(const ShardRecord&) const = default;
};

std::string to_text(const ShardRecord& record);
// Throws Error(checkpoint) naming what is wrong.
ShardRecord parse_shard_record(std::string_view text);

// --- the manifest ---

enum class Kind { full, model };  // model: weights alone, without optimizer state

struct ModelFacts {
  std::string name, sizes, fingerprint;
};

struct Run {
  std::int64_t shard = 0, stride = 1, shards = 1, begin = 0, each = 0;
  std::int64_t end() const { return begin + shards * each; }
  bool operator==(const Run&) const = default;
};

struct TensorRecord {
  std::string name, dtype;
  std::vector<std::int64_t> shape;
  std::vector<Run> runs;
  ElementOrder order = {};
  bool operator==(const TensorRecord&) const = default;
};

struct Shard {
  std::string file;
  std::int64_t bytes = 0;
  std::vector<ChunkHash> chunks;
  bool operator==(const Shard&) const = default;
};

struct Manifest {
  std::int64_t step = 0;
  std::string run;
  Kind kind = Kind::full;
  std::string created;  // utc_now()
  ModelFacts model;
  std::string config_hash;
  std::vector<std::string> settings = {};  // lines "optimizer.lr = 0.0008"; empty: not known
  nlohmann::json layout = nlohmann::json::object();
  nlohmann::json data = nlohmann::json::object();
  nlohmann::json random = nlohmann::json::object();
  nlohmann::json train_state = nlohmann::json::object();
  std::vector<Shard> shards;
  std::vector<TensorRecord> tensors;

  // Adds the shard of a rank. REQUIRES: ranks ascend. Throws Error(checkpoint) when ranks disagree
  // about a tensor.
  void add(const ShardRecord& record);
  const TensorRecord* find(std::string_view tensor) const;  // nullptr: no tensor of that name
  std::int64_t bytes() const;                               // of all shards
};

// Returns the elements of a shape. Throws Error(checkpoint) when the shape is invalid, or its bytes
// exceed 2^60.
std::int64_t elements_of(const std::vector<std::int64_t>& shape, std::string_view dtype);

// A piece and its place in a shard.
struct PlacedPiece {
  std::int64_t tensor = 0;  // index into Manifest::tensors
  std::int64_t begin = 0, end = 0;
  std::int64_t offset = 0;  // bytes
};
// Returns the pieces of a shard in the order of the file.
std::vector<PlacedPiece> pieces_of(const Manifest& manifest, std::int64_t shard);

// Checks every rule of the format. Throws Error(checkpoint), which begins with `where`, for the
// first broken rule.
void check(const Manifest& manifest, std::string_view where);

std::string to_text(const Manifest& manifest);
// Parses and checks a manifest. Error messages begin with `where`, the path of the file.
Manifest parse_manifest(std::string_view text, std::string_view where);

// Throws Error(checkpoint) for a broken rule. `where`: the file, or the tensor in it.
[[noreturn]] void refuse_manifest(std::string_view where, const std::string& rule);

}  // namespace rondo::checkpoint
