// Manifests and shard records as JSON, and back, trusting no byte.
#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>

#include "checkpoint/manifest.h"
#include "support/error.h"
#include "support/text/printable.h"

namespace rondo::checkpoint {
namespace {

using nlohmann::json;

constexpr std::int64_t kFormat = 1;
constexpr int kMaxDepth = 64;
constexpr std::int64_t kMaxInt = INT64_MAX;
constexpr std::int64_t kMaxSteps = 1'000'000'000'000;       // as for training.steps
constexpr std::int64_t kMaxCount = std::int64_t{1} << 53;   // of samples and tokens
constexpr std::int64_t kMaxSeqLen = std::int64_t{1} << 24;  // as for training.seq_len
constexpr std::int64_t kMaxValues = std::int64_t{1} << 21;  // in JSON; each takes up to 64 bytes
constexpr std::size_t kHexDigits = 32;
constexpr std::size_t kLongestShown = 200;

std::int64_t integer(const json& value, std::int64_t least, std::int64_t most, std::string_view where) {
  const bool fits = value.is_number_unsigned()
                        ? value.get<std::uint64_t>() <= static_cast<std::uint64_t>(most)
                        : value.is_number_integer();
  if (!fits || value.get<std::int64_t>() < least || value.get<std::int64_t>() > most)
    refuse_manifest(where, fmt::format("must be a whole number from {} to {}", least, most));
  return value.get<std::int64_t>();
}

// What a terminal may be shown.
const std::string& text(const json& value, std::string_view where, bool one_line = true) {
  if (!value.is_string()) refuse_manifest(where, "must be a string");
  const auto& text = value.get_ref<const std::string&>();
  if (printable(text) != text || (one_line && text.find('\n') != std::string::npos))
    refuse_manifest(where, "must be one line without control characters");
  return text;
}

const json& array(const json& value, std::string_view where) {
  if (!value.is_array()) refuse_manifest(where, "must be an array");
  return value;
}

// An object that has the keys that it must have, those that it may have, and no other.
class Fields {
 public:
  Fields(const json& object, std::string where, std::initializer_list<const char*> keys,
         std::initializer_list<const char*> optional = {})
      : object_(object), where_(std::move(where)) {
    if (!object.is_object()) refuse_manifest(where_, "must be an object");
    for (const char* key : keys)
      if (!object.contains(key)) refuse_manifest(where_, fmt::format("\"{}\" is missing", key));
    for (const auto& [key, value] : object.items())
      if (std::find(keys.begin(), keys.end(), key) == keys.end() &&
          std::find(optional.begin(), optional.end(), key) == optional.end())
        refuse_manifest(where_, fmt::format("\"{}\" is unknown", printable(key, kLongestShown)));
  }

  bool has(const char* key) const { return object_.contains(key); }
  std::string place(const char* key) const { return fmt::format("{}: \"{}\"", where_, key); }
  std::int64_t integer(const char* key, std::int64_t least, std::int64_t most = kMaxInt) const {
    return checkpoint::integer(object_[key], least, most, place(key));
  }
  const std::string& text(const char* key) const { return checkpoint::text(object_[key], place(key)); }
  const std::string& lines(const char* key) const {
    return checkpoint::text(object_[key], place(key), /*one_line=*/false);
  }
  const json& array(const char* key) const { return checkpoint::array(object_[key], place(key)); }
  const json& object(const char* key) const {
    if (!object_[key].is_object()) refuse_manifest(place(key), "must be an object");
    return object_[key];
  }

 private:
  const json& object_;
  std::string where_;
};

// Nesting and the number of values are bounded before the parser sees the text: its answer to both is memory.
// No checkpoint has as many values as that: runs are few however many the ranks, and hashes are one text a
// shard.
void check_bounds(std::string_view text, std::string_view where) {
  int depth = 0;
  std::int64_t values = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted && c == '\\') ++i;
    if (c == '"') quoted = !quoted;
    if (quoted) continue;
    if ((c == ',' || c == '[' || c == '{') && ++values > kMaxValues)
      refuse_manifest(where, fmt::format("byte {}: more than {} values", i, kMaxValues));
    if ((c == '[' || c == '{') && ++depth > kMaxDepth)
      refuse_manifest(where, fmt::format("byte {}: nested more than {} deep", i, kMaxDepth));
    if (c == ']' || c == '}') --depth;
  }
}

json parse_json(std::string_view text, std::string_view where) {
  if (std::ssize(text) > kMaxManifestBytes)
    refuse_manifest(where, fmt::format("longer than {} bytes", kMaxManifestBytes));
  check_bounds(text, where);
  try {
    return json::parse(text);
  } catch (const json::exception& error) {
    refuse_manifest(where, fmt::format("is not JSON ({})", error.what()));
  }
}

std::string dump(const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace); }

std::string hex_of(const std::vector<ChunkHash>& chunks) {
  std::string digits;
  digits.reserve(chunks.size() * kHexDigits);
  for (const ChunkHash& chunk : chunks) digits += to_hex(chunk);
  return digits;
}

std::vector<ChunkHash> parse_chunks(const Fields& fields) {
  const std::string& digits = fields.text("chunks");
  std::vector<ChunkHash> chunks;
  for (std::size_t at = 0; at < digits.size(); at += kHexDigits) {
    const auto hash = hash_from_hex(std::string_view(digits).substr(at, kHexDigits));
    if (!hash) refuse_manifest(fields.place("chunks"), fmt::format("digits from {} are no hash", at));
    chunks.push_back(*hash);
  }
  return chunks;
}

std::vector<std::int64_t> parse_shape(const json& value, std::string_view where) {
  std::vector<std::int64_t> shape;
  for (const json& size : array(value, where)) shape.push_back(integer(size, 0, kMaxInt, where));
  return shape;
}

// What it says of the tensor's shape is checked with the shape.
ElementOrder parse_cut(const json& value, std::string_view where) {
  if (array(value, where).size() != 2 && value.size() != 3)
    refuse_manifest(where, "a cut must be [dim, parts], or [dim, parts, blocks]");
  return {integer(value[0], 1, kMaxInt, where), integer(value[1], 2, kMaxInt, where),
          value.size() == 3 ? integer(value[2], 2, kMaxInt, where) : 1};
}

json cut_of(const ElementOrder& order) {
  json cut = {order.dim, order.parts};
  if (order.blocks > 1) cut.push_back(order.blocks);
  return cut;
}

using Lines = std::vector<std::string>;
Lines parse_lines(const Fields& fields, const char* key) {
  Lines lines;
  for (const json& line : fields.array(key)) lines.push_back(text(line, fields.place(key)));
  return lines;
}

PieceRecord parse_piece(const json& value, const std::string& where) {
  if (array(value, where).size() != 5 && value.size() != 6)
    refuse_manifest(where, "must be [name, dtype, shape, begin, end], and what a cut is");
  PieceRecord piece{.name = text(value[0], where),
                    .dtype = text(value[1], where),
                    .shape = parse_shape(value[2], where),
                    .begin = integer(value[3], 0, kMaxInt, where),
                    .end = integer(value[4], 0, kMaxInt, where)};
  if (value.size() == 6) piece.order = parse_cut(value[5], where);
  if (const std::string problem = problem_of(piece.order, piece.shape); !problem.empty())
    refuse_manifest(where, fmt::format("{}: {}", piece.name, problem));
  if (piece.begin > piece.end || piece.end > elements_of(piece.shape, piece.dtype))
    refuse_manifest(where,
                    fmt::format("elements [{}, {}) are not in {}", piece.begin, piece.end, piece.name));
  return piece;
}

TensorRecord parse_tensor(const json& value, const std::string& where) {
  const Fields fields(value, where, {"name", "dtype", "shape", "runs"}, {"cut"});
  TensorRecord tensor{
      fields.text("name"),
      fields.text("dtype"),
      parse_shape(fields.array("shape"), fields.place("shape")),
      {},
      fields.has("cut") ? parse_cut(fields.array("cut"), fields.place("cut")) : ElementOrder{}};
  for (const json& run : fields.array("runs")) {
    const std::string here = fields.place("runs");
    if (array(run, here).size() != 5)
      refuse_manifest(here, "must be of [shard, stride, shards, begin, each]");
    tensor.runs.push_back({.shard = integer(run[0], 0, kMaxInt, here),
                           .stride = integer(run[1], -kMaxInt, kMaxInt, here),
                           .shards = integer(run[2], 1, kMaxInt, here),
                           .begin = integer(run[3], 0, kMaxInt, here),
                           .each = integer(run[4], 1, kMaxInt, here)});
  }
  return tensor;
}

// "train_state" and "data" stay JSON, since only the trainer computes with them. That all which reads a
// manifest agrees on what is sound, they are checked here. Imported weights have neither.
void check_position(const Fields& whole, const Manifest& manifest) {
  if (manifest.train_state.empty() && manifest.kind == Kind::model) return;
  const Fields train(manifest.train_state, whole.place("train_state"),
                     {"step", "schedule_step", "tokens_seen", "went_back_to", "began_anew"}, {"begun"});
  if (train.integer("step", 0, kMaxSteps) != manifest.step)
    refuse_manifest(train.place("step"), fmt::format("must be {}, the checkpoint's", manifest.step));
  train.integer("schedule_step", 0, kMaxSteps);
  train.integer("tokens_seen", 0, kMaxCount);
  train.integer("went_back_to", -1, kMaxSteps);
  parse_lines(train, "began_anew");
  if (train.has("begun")) train.text("begun");
  const Fields data(manifest.data, whole.place("data"),
                    {"step", "sample", "seed", "seq_len", "shuffle", "fingerprint"});
  data.integer("step", 0, kMaxSteps);
  data.integer("sample", 0, kMaxCount);
  data.integer("seq_len", 1, kMaxSeqLen);
  if (!manifest.data["seed"].is_number_unsigned())
    refuse_manifest(data.place("seed"), "must be a whole number of at least 0");
  if (!manifest.data["shuffle"].is_boolean()) refuse_manifest(data.place("shuffle"), "must be true or false");
  const std::string& fingerprint = data.text("fingerprint");
  if (fingerprint.size() != 16 || fingerprint.find_first_not_of("0123456789abcdef") != std::string::npos)
    refuse_manifest(data.place("fingerprint"), "must be 16 hexadecimal digits");
}

Kind parse_kind(const Fields& fields) {
  const std::string& kind = fields.text("kind");
  if (kind != "full" && kind != "model")
    refuse_manifest(fields.place("kind"), "must be \"full\" or \"model\"");
  return kind == "full" ? Kind::full : Kind::model;
}

// A format of the future may have other fields, so its number is looked at before all else.
void check_format(const json& whole, std::string_view where) {
  if (!whole.is_object() || !whole.contains("format") || !whole["format"].is_number_integer())
    refuse_manifest(where, "is no manifest of a checkpoint (no \"format\")");
  if (whole["format"] != kFormat)
    refuse_manifest(
        where, fmt::format("has format {}; this rondo reads format {} only", dump(whole["format"]), kFormat));
}

}  // namespace

std::string to_text(const ShardRecord& record) {
  json pieces = json::array();
  for (const PieceRecord& p : record.pieces) {
    pieces.push_back({p.name, p.dtype, p.shape, p.begin, p.end});
    if (!p.order.row_major()) pieces.back().push_back(cut_of(p.order));
  }
  return dump({{"rank", record.rank},
               {"bytes", record.bytes},
               {"chunks", hex_of(record.chunks)},
               {"pieces", std::move(pieces)}});
}

ShardRecord parse_shard_record(std::string_view text) {
  const std::string where = "the record of a shard";
  const json whole = parse_json(text, where);
  const Fields fields(whole, where, {"rank", "bytes", "chunks", "pieces"});
  ShardRecord record{.rank = static_cast<int>(fields.integer("rank", 0, 99'999)),
                     .bytes = fields.integer("bytes", 0),
                     .chunks = parse_chunks(fields),
                     .pieces = {}};
  for (const json& piece : fields.array("pieces"))
    record.pieces.push_back(parse_piece(piece, fields.place("pieces")));
  return record;
}

std::string to_text(const Manifest& m) {
  // One line a field, a shard and a tensor: long lists stay readable, and numbers do not get lines of their
  // own.
  const std::string settings = m.settings.empty() ? "" : "\"settings\": " + dump(m.settings) + ",\n";
  std::string text = fmt::format(
      "{{\n\"format\": {},\n\"step\": {},\n\"run\": {},\n\"kind\": \"{}\",\n\"created\": {},\n\"model\": "
      "{},\n"
      "\"config_hash\": {},\n{}\"layout\": {},\n\"data\": {},\n\"random\": {},\n\"train_state\": {},\n"
      "\"shards\": [",
      kFormat, m.step, dump(m.run), m.kind == Kind::full ? "full" : "model", dump(m.created),
      dump({{"name", m.model.name}, {"sizes", m.model.sizes}, {"fingerprint", m.model.fingerprint}}),
      dump(m.config_hash), settings, dump(m.layout), dump(m.data), dump(m.random), dump(m.train_state));
  const char* separator = "\n";
  for (const Shard& shard : m.shards) {
    text +=
        separator + dump({{"file", shard.file}, {"bytes", shard.bytes}, {"chunks", hex_of(shard.chunks)}});
    separator = ",\n";
  }
  text += "\n],\n\"tensors\": [";
  separator = "\n";
  for (const TensorRecord& tensor : m.tensors) {
    json runs = json::array();
    for (const Run& run : tensor.runs)
      runs.push_back(json::array({run.shard, run.stride, run.shards, run.begin, run.each}));
    json fields = {
        {"name", tensor.name}, {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"runs", std::move(runs)}};
    if (!tensor.order.row_major()) fields["cut"] = cut_of(tensor.order);
    text += separator + dump(fields);
    separator = ",\n";
  }
  return text + "\n]\n}\n";
}

Manifest parse_manifest(std::string_view text, std::string_view where) {
  const json whole = parse_json(text, where);
  check_format(whole, where);
  const Fields fields(whole, std::string(where),
                      {"format", "step", "run", "kind", "created", "model", "config_hash", "layout", "data",
                       "random", "train_state", "shards", "tensors"},
                      {"settings"});
  const Fields model(fields.object("model"), fields.place("model"), {"name", "sizes", "fingerprint"});
  Manifest manifest{.step = fields.integer("step", 0),
                    .run = fields.text("run"),
                    .kind = parse_kind(fields),
                    .created = fields.text("created"),
                    .model = {model.text("name"), model.lines("sizes"), model.text("fingerprint")},
                    .config_hash = fields.text("config_hash"),
                    .settings = fields.has("settings") ? parse_lines(fields, "settings") : Lines(),
                    .layout = fields.object("layout"),
                    .data = fields.object("data"),
                    .random = fields.object("random"),
                    .train_state = fields.object("train_state"),
                    .shards = {},
                    .tensors = {}};
  check_position(fields, manifest);
  for (const json& value : fields.array("shards")) {
    const Fields shard(value, fields.place("shards"), {"file", "bytes", "chunks"});
    manifest.shards.push_back({shard.text("file"), shard.integer("bytes", 0), parse_chunks(shard)});
  }
  for (const json& value : fields.array("tensors"))
    manifest.tensors.push_back(parse_tensor(value, fields.place("tensors")));
  check(manifest, where);
  return manifest;
}

}  // namespace rondo::checkpoint
