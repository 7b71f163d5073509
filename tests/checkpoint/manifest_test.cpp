// Tests manifest.json and shard records: round trips, size, and invalid texts.
#include "checkpoint/manifest.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <functional>
#include <random>
#include <tuple>

#include "tests/checkpoint/states.h"
#include "tests/runs/metrics/scratch.h"

namespace rondo::checkpoint {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;
using nlohmann::json;

ShardRecord record_of(int rank, std::vector<PieceRecord> pieces) {
  ShardRecord record{.rank = rank, .bytes = 0, .chunks = {}, .pieces = std::move(pieces)};
  for (const PieceRecord& piece : record.pieces)
    if (piece.begin < piece.end)
      record.bytes = (record.bytes + 63) / 64 * 64 + (piece.end - piece.begin) * dtype_bytes(piece.dtype);
  record.chunks.assign(static_cast<std::size_t>(chunks_of(record.bytes)), ChunkHash{1, 2});
  return record;
}

Manifest small_manifest() {
  Manifest manifest = empty_manifest(3);
  manifest.layout = {{"world_size", 2}};
  manifest.random = {{"seed", 7}};
  for (int rank = 0; rank < 2; ++rank)
    manifest.add(record_of(rank, {{"a", "f32", {4, 2}, rank * 4, rank * 4 + 4},
                                  {"b", "i64", {}, 0, 1 - rank},
                                  {"columns", "f32", {2, 6}, 0, 12 * (1 - rank), {1, 2}}}));
  return manifest;
}

std::string parsed(const std::string& text) {
  return error_of([&] { parse_manifest(text, "M"); });
}

// Returns the error for the small manifest after a change to its JSON.
std::string after(const std::function<void(json&)>& change) {
  json whole = json::parse(to_text(small_manifest()));
  change(whole);
  return parsed(whole.dump());
}

}  // namespace

TEST_CASE("a manifest and a shard record are read back unchanged") {
  const Manifest before = small_manifest();
  const std::string text = to_text(before);
  const Manifest read = parse_manifest(text, "M");
  CHECK(to_text(read) == text);
  CHECK(read.tensors == before.tensors);
  CHECK(read.shards == before.shards);
  CHECK(read.tensors[2].order == ElementOrder{1, 2});
  CHECK(json::parse(text)["tensors"][2]["cut"] == json({1, 2}));
  CHECK_FALSE(json::parse(text)["tensors"][0].contains("cut"));
  CHECK(read.tensors[1].runs == std::vector{Run{.shard = 0, .begin = 0, .each = 1}});
  const ShardRecord record = record_of(
      12, {{"a", "bf16", {5, 2}, 3, 7}, {"c", "f32", {0}, 0, 0}, {"d", "f32", {2, 3, 4}, 6, 12, {2, 4}}});
  CHECK(parse_shard_record(to_text(record)) == record);
}

TEST_CASE("the manifest of 4096 ranks and 1500 tensors is small, and complete") {
  constexpr int kRanks = 4096, kTensors = 1500;
  Manifest manifest = empty_manifest(3);
  for (int rank = 0; rank < kRanks; ++rank) {
    std::vector<PieceRecord> pieces;
    for (int t = 0; t < kTensors; ++t) {
      const std::int64_t rows = 5000 + t % 7, each = (rows + kRanks - 1) / kRanks * 512;
      const std::int64_t all = rows * 512;
      pieces.push_back({fmt::format("model/layers.{:04}.weight", t),
                        "f32",
                        {rows, 512},
                        std::min(all, rank * each),
                        std::min(all, (rank + 1) * each)});
    }
    manifest.add(record_of(rank, std::move(pieces)));
  }
  const std::string text = to_text(manifest);
  CHECK(text.size() < 1'000'000);
  const Manifest read = parse_manifest(text, "M");
  CHECK(read.tensors == manifest.tensors);
  CHECK(pieces_of(read, 2499).size() == kTensors);
}

TEST_CASE("every field of a manifest is checked") {
  CHECK(after([](json&) {}) == "no error");
  const json fields = json::parse(to_text(small_manifest()));
  for (const auto& [key, value] : fields.items()) {
    const std::string name = key;
    CHECK_THAT(after([&](json& whole) { whole.erase(name); }), ContainsSubstring(name));
    CHECK_THAT(after([&](json& whole) { whole[name] = -1; }), ContainsSubstring("5: M"));
    CHECK_THAT(after([&](json& whole) { whole[name] = nullptr; }), ContainsSubstring("5: M"));
  }
  CHECK(after([](json& whole) { whole["format"] = 2; }) ==
        "5: M: has format 2; this rondo reads format 1 only");
  CHECK(after([](json& whole) { whole["extra"] = 2; }) == "5: M: extra = 2: is unknown");
  CHECK(after([](json& whole) { whole["kind"] = "half"; }) ==
        "5: M: kind = \"half\": must be \"full\" or \"model\"");
  CHECK(parsed("[]") == "5: M: is no manifest of a checkpoint (no \"format\")");
  CHECK_THAT(parsed("{\"format\": 1"),
             ContainsSubstring("5: M: is not JSON: parse error at line 1, column 13"));
  CHECK(parsed(std::string(100'000, '[')) == "5: M: byte 64: nested more than 64 deep");
  CHECK_THAT(parsed(std::string(kMaxManifestBytes + 1, ' ')),
             ContainsSubstring("longer than 67108864 bytes"));
}

TEST_CASE("train_state and data are checked when a manifest is read, and must agree with its step") {
  const auto with = [](const char* object, const char* key, const json& value) {
    return after([&](json& whole) { whole[object][key] = value; });
  };
  CHECK(with("train_state", "step", 4) == "5: M: train_state.step = 4: must be 3, the checkpoint's");
  CHECK(with("data", "sample", INT64_MAX) ==
        "5: M: data.sample = 9223372036854775807: must be a whole number from 0 to 9007199254740992");
  const std::vector<std::tuple<const char*, const char*, json>> wrong = {
      {"train_state", "step", -1},
      {"train_state", "schedule_step", 1e3},
      {"train_state", "tokens_seen", -2},
      {"train_state", "went_back_to", -2},
      {"train_state", "began_anew", "x"},
      {"train_state", "began_anew", {{"optimizer", -2}}},
      {"train_state", "begun", 7},
      {"train_state", "extra", 1},
      {"data", "step", -1},
      {"data", "step", std::int64_t{1} << 53},
      {"data", "seed", -1},
      {"data", "seq_len", 0},
      {"data", "shuffle", 1},
      {"data", "fingerprint", "xyz"},
      {"data", "content", "0123"}};
  for (const auto& [object, key, value] : wrong) {
    INFO(object << " " << key << " " << value.dump());
    CHECK_THAT(with(object, key, value), StartsWith(std::string("5: M: ") + object + "." + key));
  }
  CHECK(with("train_state", "began_anew", json({"optimizer"})) == "no error");  // of an older version
  CHECK(with("train_state", "began_anew", {{"optimizer", 7}}) == "no error");
  const auto emptied = [](const char* kind) {
    return after([&](json& whole) {
      whole["kind"] = kind;
      whole["train_state"] = whole["data"] = json::object();
    });
  };
  CHECK(emptied("model") == "no error");  // imported weights
  CHECK(emptied("full") == "5: M: train_state.step is missing");
}

TEST_CASE("a manifest has no control characters, and no more values than a checkpoint can have") {
  for (const char* key : {"run", "created", "config_hash"})
    CHECK(after([&](json& whole) { whole[key] = "\x1b[2J"; }) ==
          fmt::format("5: M: {} = \"\\u001b[2J\": must be one line without control characters", key));
  CHECK(after([](json& whole) { whole["\x1b[2J"] = 1; }) == "5: M: [\"\\u001b[2J\"] = 1: is unknown");
  CHECK(after([](json& whole) { whole["settings"] = {"a = 1\nb = 2"}; }) ==
        "5: M: settings[0] = \"a = 1\\nb = 2\": must be one line without control characters");
  std::string many = "[";
  for (int i = 0; i < 1 << 21; ++i) many += "[],";
  CHECK_THAT(parsed(many), ContainsSubstring("more than 2097152 values"));
}

TEST_CASE("shards with other names, sizes or numbers of hashes are refused") {
  for (const char* name :
       {"../rank-0000.bin", "rank-0.bin", "rank-0000a.bin", "COMMITTED", "", "/etc/passwd1234"})
    CHECK_THAT(after([&](json& whole) { whole["shards"][0]["file"] = name; }),
               ContainsSubstring("is not the name of a shard"));
  CHECK(after([](json& whole) { whole["shards"][1]["file"] = "rank-00000.bin"; }) ==
        "5: M: rank-00000.bin comes after rank-00000.bin");
  CHECK(after([](json& whole) { whole["shards"][0]["bytes"] = 175; }) ==
        "5: M: the pieces in rank-00000.bin need 176 bytes, but it has 175");
  CHECK(after([](json& whole) { whole["shards"][0]["bytes"] = kChunkBytes + 1; }) ==
        "5: M: rank-00000.bin has 16777217 bytes and so 2 chunks, but 1 hashes");
  CHECK_THAT(after([](json& whole) { whole["shards"][0]["bytes"] = std::uint64_t{1} << 63; }),
             ContainsSubstring("shards[0].bytes = 9223372036854775808: must be a whole number from 0 to"));
  CHECK_THAT(after([](json& whole) { whole["shards"][0]["chunks"] = "00"; }),
             ContainsSubstring("digits from 0 are no hash"));
  CHECK(after([](json& whole) { whole["shards"] = json::array(); }) == "5: M: it names no shard");
}

TEST_CASE("invalid tensors, and runs that do not cover them exactly once, are refused") {
  const auto run = [](json value) {
    return after([&](json& whole) { whole["tensors"][0]["runs"] = json::array({value}); });
  };
  CHECK(run({0, 1, 2, 0, 4}) == "no error");
  CHECK(run({0, 1, 2, 1, 4}) == "5: M: tensor a: elements [0, 1) are in no shard");
  CHECK(run({0, 1, 2, 0, 3}) == "5: M: tensor a: elements [6, 8) are in no shard");
  CHECK(run({0, 1, 2, 0, 5}) == "5: M: tensor a: the run from element 0 ends after the last one");
  CHECK(run({0, 1, 2, 0, INT64_MAX}) == "5: M: tensor a: the run from element 0 ends after the last one");
  CHECK(run({1, 1, 2, 0, 4}) == "5: M: tensor a: the run [1, 1, 2, 0, 4] exceeds the 2 shards");
  CHECK_THAT(run({0, 0, 2, 0, 4}), ContainsSubstring("exceeds the 2 shards"));
  CHECK_THAT(run({INT64_MAX, 1, 2, 0, 4}), ContainsSubstring("exceeds the 2 shards"));
  CHECK_THAT(run({0, INT64_MAX, 2, 0, 4}), ContainsSubstring("exceeds the 2 shards"));
  CHECK_THAT(run({0, 1, INT64_MAX, 0, 4}), ContainsSubstring("exceeds the 2 shards"));
  CHECK_THAT(run({0, 1, 2}),
             ContainsSubstring("tensors[0].runs[0] = [0,1,2]: must be [shard, stride, shards, begin, each]"));
  CHECK_THAT(run({0, 1, 2, 0, 0}), ContainsSubstring("must be a whole number from 1"));
  const auto field = [](const char* key, json value) {
    return after([&](json& whole) { whole["tensors"][0][key] = value; });
  };
  CHECK(field("name", "c") == "5: M: tensor b: comes after c");
  CHECK_THAT(field("name", ""), ContainsSubstring("a tensor's name has 1 to 1024 bytes"));
  CHECK(field("dtype", "f33") == "5: \"f33\" is not a dtype of checkpoints");
  CHECK(field("dtype", "u8") == "5: M: the pieces in rank-00001.bin need 4 bytes, but it has 16");
  CHECK(field("shape", {1 << 30, 1 << 30, 1 << 30}) ==
        "5: the shape [1073741824, 1073741824, 1073741824] of f32 is not the shape of a tensor");
  CHECK_THAT(field("shape", {-8}), ContainsSubstring("must be a whole number from 0"));
}

TEST_CASE("a cut that a tensor cannot have is refused") {
  const auto cut = [](json value, std::size_t tensor = 2) {
    return after([&](json& whole) { whole["tensors"][tensor]["cut"] = value; });
  };
  for (const int parts : {2, 3, 6}) CHECK(cut({1, parts}) == "no error");
  CHECK(cut({1, 3, 2}) == "no error");
  CHECK(cut({1, 2, 2}) ==
        "5: M: tensor columns: its cut is into 2 parts of 2 blocks, which do not divide the "
        "size 6 of dimension 1");
  CHECK(cut({1, 2, INT64_MAX}) ==
        "5: M: tensor columns: its cut is of 9223372036854775807 blocks, but must be of 1 to 65536");
  CHECK_THAT(cut({1, 2, 1}), ContainsSubstring("tensors[2].cut[2] = 1: must be a whole number from 2 to"));
  CHECK(cut({2, 2}) ==
        "5: M: tensor columns: its cut is along dimension 2, which is not a dimension after the first of its "
        "2");
  CHECK(cut({INT64_MAX, 2}).ends_with("which is not a dimension after the first of its 2"));
  CHECK(cut({1, 2}, 1) ==
        "5: M: tensor b: its cut is along dimension 1, which is not a dimension after the first of its 0");
  CHECK(cut({1, 4}) ==
        "5: M: tensor columns: its cut is into 4 parts, which do not divide the size 6 of dimension 1");
  CHECK(cut({1, INT64_MAX}) ==
        "5: M: tensor columns: its cut is into 9223372036854775807 parts, but must be into 2 to 65536");
  CHECK_THAT(cut({0, 2}), ContainsSubstring("cut[0] = 0: must be a whole number from 1 to"));
  CHECK_THAT(cut({1, 1}), ContainsSubstring("cut[1] = 1: must be a whole number from 2 to"));
  CHECK_THAT(cut({-1, 2}), ContainsSubstring("must be a whole number"));
  CHECK_THAT(cut({1, 2.5}), ContainsSubstring("must be a whole number"));
  CHECK_THAT(cut({1, std::uint64_t{1} << 63}), ContainsSubstring("must be a whole number"));
  for (const json& list : {json::array(), json({1}), json({1, 2, 3, 1})})
    CHECK_THAT(cut(list), ContainsSubstring(": must be [dim, parts]"));
  for (const json& other : {json(nullptr), json("1, 2"), json(2), json::object()})
    CHECK_THAT(cut(other), ContainsSubstring(".cut = " + other.dump() + ": must be an array"));
}

TEST_CASE("random cuts are refused unless they are of a later dimension and divide it") {
  std::mt19937_64 random(6);
  for (int round = 0; round < 2'000; ++round) {
    std::vector<std::int64_t> shape;
    for (std::uint64_t i = 0, dims = random() % 4; i < dims; ++i)
      shape.push_back(static_cast<std::int64_t>(random() % 7));
    const auto dim = static_cast<std::int64_t>(random() % 5), parts = static_cast<std::int64_t>(random() % 8);
    const std::int64_t all = elements_of(shape, "u8");
    Manifest manifest = empty_manifest(1);
    manifest.add(record_of(0, {{"w", "u8", shape, 0, all, {dim, parts}}}));
    const bool allowed = (dim == 0 && parts == 1) || (dim >= 1 && dim < std::ssize(shape) && parts >= 2 &&
                                                      shape[static_cast<std::size_t>(dim)] % parts == 0);
    const auto said = error_of([&] { check(manifest, "M"); });
    INFO(said);
    REQUIRE((said == "no error") == allowed);
  }
}

TEST_CASE("random changes to the text of a manifest are refused or harmless") {
  const std::string text = to_text(small_manifest());
  std::mt19937_64 random(5);
  for (int round = 0; round < 20'000; ++round) {
    std::string changed = text;
    for (std::uint64_t i = 0, edits = 1 + random() % 4; i < edits; ++i) {
      const std::size_t at = random() % changed.size();
      switch (random() % 4) {
        case 0:
          changed[at] = static_cast<char>(random());
          break;
        case 1:
          changed.erase(at, random() % 20);
          break;
        case 2:
          changed.insert(at, changed.substr(random() % changed.size(), random() % 20));
          break;
        default:
          changed[at] = "0123456789-{}[],\":e."[random() % 20];
      }
      if (changed.empty()) changed = " ";
    }
    try {
      check(parse_manifest(changed, "M"), "M");
    } catch (const Error& error) {
      REQUIRE(error.code() == ExitCode::checkpoint);
    }
  }
}

TEST_CASE("a shard record from the wire is checked like a manifest") {
  const auto said = [](const std::string& text) { return error_of([&] { parse_shard_record(text); }); };
  CHECK_THAT(said("{}"), ContainsSubstring("5: the record of a shard: rank is missing"));
  CHECK_THAT(said(R"({"rank":0,"bytes":1,"chunks":"xx","pieces":[]})"), ContainsSubstring("are no hash"));
  CHECK_THAT(said(R"({"rank":0,"bytes":1,"chunks":"","pieces":[["a","f32",[2],1,3]]})"),
             ContainsSubstring("elements [1, 3) are not in a"));
  CHECK_THAT(said(R"({"rank":0,"bytes":1,"chunks":"","pieces":[["a"]]})"),
             ContainsSubstring("must be [name, dtype, shape, begin, end], and what a cut is"));
  CHECK_THAT(said(R"({"rank":0,"bytes":1,"chunks":"","pieces":[["a","f32",[2,3],0,3,[1,2]]]})"),
             ContainsSubstring("a: its cut is into 2 parts, which do not divide the size 3 of dimension 1"));
  CHECK_THAT(said(R"({"rank":0,"bytes":1,"chunks":"","pieces":[["a","f32",[2,3],0,3,[1]]]})"),
             ContainsSubstring("pieces[0][5] = [1]: must be [dim, parts]"));
}

}  // namespace rondo::checkpoint
