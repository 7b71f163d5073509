// Manifests and shard records as JSON, and back, trusting no byte.
#include <fmt/format.h>

#include "checkpoint/manifest.h"
#include "support/error.h"
#include "support/printable.h"
#include "support/text/json_view.h"

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

// A text that a terminal may be shown.
const std::string& printable_text(const JsonView& view, bool one_line = true) {
  const std::string& text = view.text();
  if (printable(text) != text || (one_line && text.find('\n') != std::string::npos))
    view.refuse("must be one line without control characters");
  return text;
}
const std::string& text(const JsonView& fields, const char* key) { return printable_text(fields.at(key)); }

std::int64_t integer(const JsonView& fields, const char* key, std::int64_t least,
                     std::int64_t most = kMaxInt) {
  return fields.at(key).integer(least, most);
}

bool has(const JsonView& fields, const char* key) { return fields.raw().contains(key); }

// Nesting and the number of values are bounded before the parser sees the text: its answer to both
// is memory. No checkpoint has as many values as that: runs are few however many the ranks, and
// hashes are one text a shard.
void check_bounds(std::string_view text, const std::string& where) {
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

json parse_bounded(std::string_view text, const JsonSource& source) {
  if (std::ssize(text) > kMaxManifestBytes)
    refuse_manifest(source.name, fmt::format("longer than {} bytes", kMaxManifestBytes));
  check_bounds(text, source.name);
  return parse_json(text, source);
}

std::string dump(const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace); }

std::string hex_of(const std::vector<ChunkHash>& chunks) {
  std::string digits;
  digits.reserve(chunks.size() * kHexDigits);
  for (const ChunkHash& chunk : chunks) digits += to_hex(chunk);
  return digits;
}

std::vector<ChunkHash> parse_chunks(const JsonView& view) {
  const std::string& digits = printable_text(view);
  std::vector<ChunkHash> chunks;
  for (std::size_t at = 0; at < digits.size(); at += kHexDigits) {
    const auto hash = hash_from_hex(std::string_view(digits).substr(at, kHexDigits));
    if (!hash) refuse_manifest(view.place(), fmt::format("digits from {} are no hash", at));
    chunks.push_back(*hash);
  }
  return chunks;
}

std::vector<std::int64_t> parse_shape(const JsonView& view) {
  std::vector<std::int64_t> shape;
  for (const JsonView& size : view.items()) shape.push_back(size.integer(0, kMaxInt));
  return shape;
}

// What it says of the tensor's shape is checked with the shape.
ElementOrder parse_cut(const JsonView& view) {
  const std::vector<JsonView> cut = view.items();
  if (cut.size() != 2 && cut.size() != 3) view.refuse("must be [dim, parts], or [dim, parts, blocks]");
  return {.dim = cut[0].integer(1, kMaxInt),
          .parts = cut[1].integer(2, kMaxInt),
          .blocks = cut.size() == 3 ? cut[2].integer(2, kMaxInt) : 1};
}

json cut_of(const ElementOrder& order) {
  json cut = {order.dim, order.parts};
  if (order.blocks > 1) cut.push_back(order.blocks);
  return cut;
}

using Lines = std::vector<std::string>;
Lines parse_lines(const JsonView& view) {
  Lines lines;
  for (const JsonView& line : view.items()) lines.push_back(printable_text(line));
  return lines;
}

PieceRecord parse_piece(const JsonView& view) {
  const std::vector<JsonView> fields = view.items();
  if (fields.size() != 5 && fields.size() != 6)
    view.refuse("must be [name, dtype, shape, begin, end], and what a cut is");
  PieceRecord piece{.name = printable_text(fields[0]),
                    .dtype = printable_text(fields[1]),
                    .shape = parse_shape(fields[2]),
                    .begin = fields[3].integer(0, kMaxInt),
                    .end = fields[4].integer(0, kMaxInt)};
  if (fields.size() == 6) piece.order = parse_cut(fields[5]);
  if (const std::string problem = problem_of(piece.order, piece.shape); !problem.empty())
    refuse_manifest(view.place(), fmt::format("{}: {}", piece.name, problem));
  if (piece.begin > piece.end || piece.end > elements_of(piece.shape, piece.dtype))
    refuse_manifest(view.place(),
                    fmt::format("elements [{}, {}) are not in {}", piece.begin, piece.end, piece.name));
  return piece;
}

TensorRecord parse_tensor(const JsonView& fields) {
  fields.has_only({"name", "dtype", "shape", "runs"}, {"cut"});
  TensorRecord tensor{.name = text(fields, "name"),
                      .dtype = text(fields, "dtype"),
                      .shape = parse_shape(fields.at("shape")),
                      .runs = {},
                      .order = has(fields, "cut") ? parse_cut(fields.at("cut")) : ElementOrder{}};
  for (const JsonView& view : fields.at("runs").items()) {
    const std::vector<JsonView> run = view.items();
    if (run.size() != 5) view.refuse("must be [shard, stride, shards, begin, each]");
    tensor.runs.push_back({.shard = run[0].integer(0, kMaxInt),
                           .stride = run[1].integer(-kMaxInt, kMaxInt),
                           .shards = run[2].integer(1, kMaxInt),
                           .begin = run[3].integer(0, kMaxInt),
                           .each = run[4].integer(1, kMaxInt)});
  }
  return tensor;
}

// "train_state" and "data" stay JSON, since only the trainer computes with them. That all which
// reads a manifest agrees on what is sound, they are checked here. Imported weights have neither.
void check_position(const JsonView& whole, const Manifest& manifest) {
  const JsonView train = whole.at("train_state"), data = whole.at("data");
  if (train.object().empty() && manifest.kind == Kind::model) return;
  train.has_only({"step", "schedule_step", "tokens_seen", "went_back_to", "began_anew"}, {"begun"});
  if (integer(train, "step", 0, kMaxSteps) != manifest.step)
    train.at("step").refuse(fmt::format("must be {}, the checkpoint's", manifest.step));
  integer(train, "schedule_step", 0, kMaxSteps);
  integer(train, "tokens_seen", 0, kMaxCount);
  integer(train, "went_back_to", -1, kMaxSteps);
  const JsonView parts = train.at("began_anew");
  if (parts.raw().is_array())
    parse_lines(parts);
  else
    for (const auto& [part, step] : parts.object().items()) parts.child(step, part).integer(-1, kMaxSteps);
  if (has(train, "begun")) text(train, "begun");
  data.has_only({"step", "sample", "seed", "seq_len", "shuffle", "fingerprint"}, {"content"});
  integer(data, "step", 0, kMaxSteps);
  integer(data, "sample", 0, kMaxCount);
  integer(data, "seq_len", 1, kMaxSeqLen);
  if (const JsonView seed = data.at("seed"); !seed.raw().is_number_unsigned())
    seed.refuse("must be a whole number of at least 0");
  data.at("shuffle").boolean();
  for (const char* key : {"fingerprint", "content"}) {
    if (!has(data, key) && key == std::string_view("content")) continue;
    const std::string& hash = text(data, key);
    if (hash.size() != 16 || hash.find_first_not_of("0123456789abcdef") != std::string::npos)
      data.at(key).refuse("must be 16 hexadecimal digits");
  }
}

Kind parse_kind(const JsonView& view) {
  if (view.text() != "full" && view.text() != "model") view.refuse("must be \"full\" or \"model\"");
  return view.text() == "full" ? Kind::full : Kind::model;
}

// A format of the future may have other fields, so its number is looked at before all else.
void check_format(const json& whole, const std::string& where) {
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
  const JsonSource source{.name = "the record of a shard", .code = ExitCode::checkpoint};
  const json whole = parse_bounded(text, source);
  const JsonView fields(whole, source);
  fields.has_only({"rank", "bytes", "chunks", "pieces"});
  ShardRecord record{.rank = static_cast<int>(integer(fields, "rank", 0, 99'999)),
                     .bytes = integer(fields, "bytes", 0),
                     .chunks = parse_chunks(fields.at("chunks")),
                     .pieces = {}};
  for (const JsonView& piece : fields.at("pieces").items()) record.pieces.push_back(parse_piece(piece));
  return record;
}

std::string to_text(const Manifest& m) {
  // One line a field, a shard and a tensor: long lists stay readable, and numbers do not get lines
  // of their own.
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

Manifest parse_manifest(std::string_view contents, std::string_view where) {
  const JsonSource source{.name = std::string(where), .code = ExitCode::checkpoint};
  const json whole = parse_bounded(contents, source);
  check_format(whole, source.name);
  const JsonView fields(whole, source), model = fields.at("model");
  fields.has_only({"format", "step", "run", "kind", "created", "model", "config_hash", "layout", "data",
                   "random", "train_state", "shards", "tensors"},
                  {"settings"});
  model.has_only({"name", "sizes", "fingerprint"});
  Manifest manifest{.step = integer(fields, "step", 0),
                    .run = text(fields, "run"),
                    .kind = parse_kind(fields.at("kind")),
                    .created = text(fields, "created"),
                    .model = {text(model, "name"), printable_text(model.at("sizes"), /*one_line=*/false),
                              text(model, "fingerprint")},
                    .config_hash = text(fields, "config_hash"),
                    .settings = has(fields, "settings") ? parse_lines(fields.at("settings")) : Lines(),
                    .layout = fields.at("layout").object(),
                    .data = fields.at("data").object(),
                    .random = fields.at("random").object(),
                    .train_state = fields.at("train_state").object(),
                    .shards = {},
                    .tensors = {}};
  check_position(fields, manifest);
  for (const JsonView& shard : fields.at("shards").items()) {
    shard.has_only({"file", "bytes", "chunks"});
    manifest.shards.push_back({.file = text(shard, "file"),
                               .bytes = integer(shard, "bytes", 0),
                               .chunks = parse_chunks(shard.at("chunks"))});
  }
  for (const JsonView& tensor : fields.at("tensors").items())
    manifest.tensors.push_back(parse_tensor(tensor));
  check(manifest, where);
  return manifest;
}

}  // namespace rondo::checkpoint
