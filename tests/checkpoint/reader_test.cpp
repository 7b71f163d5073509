// Tests reading: any layout from any other, chunks, and the cache of verified chunks.
#include "checkpoint/reader.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <fstream>

#include "tests/checkpoint/states.h"
#include "tests/runs/metrics/scratch.h"

namespace rondo::checkpoint {
namespace {

using Catch::Matchers::ContainsSubstring;
namespace fs = std::filesystem;

// Random borders, the same for all ranks of a layout; some ranks have no elements.
Split random_split(std::uint64_t seed) {
  return [seed](const TestTensor& tensor, int rank, int ranks) {
    std::mt19937_64 random(seed ^ std::hash<std::string>()(tensor.name));
    std::vector<std::int64_t> borders{0, tensor.elements()};
    for (int i = 1; i < ranks; ++i)
      borders.push_back(
          static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(tensor.elements() + 1)));
    std::sort(borders.begin(), borders.end());
    const auto r = static_cast<std::size_t>(rank);
    return std::pair(borders[r], borders[r + 1]);
  };
}

// Ranks are (data, tensor) with the tensor axis inner. Tensors are split over the tensor axis
// first.
std::pair<std::int64_t, std::int64_t> mesh_split(const TestTensor& tensor, int rank, int ranks) {
  const int inner = 2, outer = ranks / inner;
  return even_split(tensor, rank % inner * outer + rank / inner, ranks);
}

TestState random_state(std::mt19937_64& random) {
  TestState state;
  const char* dtypes[] = {"f32", "bf16", "i64", "u8"};
  for (std::uint64_t i = 0, count = 1 + random() % 12; i < count; ++i) {
    std::vector<std::int64_t> shape;
    for (std::uint64_t axis = 0, axes = random() % 4; axis < axes; ++axis)
      shape.push_back(static_cast<std::int64_t>(random() % 20));
    state.push_back(random_tensor(random, "t" + std::to_string(random() % 1000) + "." + std::to_string(i),
                                  dtypes[random() % 4], shape));
  }
  return state;
}

}  // namespace

TEST_CASE("m ranks read what n ranks wrote bit for bit, for any n and m and any split") {
  std::mt19937_64 random(1);
  for (int round = 0; round < 150; ++round) {
    const Scratch scratch;
    const TestState state = random_state(random);
    const int writers = 1 + static_cast<int>(random() % 12), readers = 1 + static_cast<int>(random() % 12);
    const fs::path folder = save(scratch / "root", 1, writers, state, random_split(random()));
    Reader reader(folder);
    INFO("round " << round << ": " << writers << " to " << readers);
    REQUIRE(equal(read_all(reader, state, readers, random_split(random())), state));
  }
}

TEST_CASE("a split over two axes is one run of the manifest") {
  const Scratch scratch;
  std::mt19937_64 random(2);
  const TestState state = {random_tensor(random, "w", "f32", {64, 3})};
  const fs::path folder = save(scratch / "root", 1, 8, state, mesh_split);
  Reader reader(folder);
  const std::vector<Run>& runs = reader.manifest().tensors[0].runs;
  REQUIRE(runs.size() == 2);
  CHECK(runs[0] == Run{.shard = 0, .stride = 2, .shards = 4, .begin = 0, .each = 24});
  CHECK(runs[1] == Run{.shard = 1, .stride = 2, .shards = 4, .begin = 96, .each = 24});
  CHECK(equal(read_all(reader, state, 3), state));
}

TEST_CASE("tensors of several chunks are read whole, in parts and in any order") {
  const Scratch scratch;
  std::mt19937_64 random(3);
  TestState state = {random_tensor(random, "a", "u8", {100}),
                     random_tensor(random, "b", "f32", {5 * 1024, 1024}),  // 20 MiB
                     random_tensor(random, "c", "bf16", {17, 1'000'003})};
  const fs::path folder = save(scratch / "root", 1, 1, state);
  Reader reader(folder);
  CHECK(reader.manifest().shards[0].chunks.size() == 4);
  CHECK(equal(read_all(reader, state), state));
  for (int round = 0; round < 200; ++round) {
    const TestTensor& tensor = state[random() % 3];
    const std::int64_t size = dtype_bytes(tensor.dtype);
    const auto begin = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(tensor.elements()));
    const std::int64_t end =
        std::min(tensor.elements(), begin + static_cast<std::int64_t>(random() % 100'000));
    std::vector<std::byte> out(static_cast<std::size_t>((end - begin) * size));
    reader.read(tensor.name, begin, end, out);
    REQUIRE(std::equal(out.begin(), out.end(), tensor.bytes.begin() + begin * size));
  }
}

TEST_CASE("evicted chunks are verified when they are needed again") {
  const Scratch scratch;
  constexpr int kShards = 20;  // more than a reader caches
  std::mt19937_64 random(4);
  TestState state;
  for (int i = 0; i < 3; ++i)
    state.push_back(random_tensor(random, "t" + std::to_string(i), "f32", {kShards * 100'000}));
  const fs::path folder = save(scratch / "root", 1, kShards, state);
  Reader reader(folder);
  CHECK(equal(read_all(reader, state), state));
  CHECK(equal(read_all(reader, state, 3), state));
  {
    std::fstream file(folder / "rank-00000.bin", std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(200'000);
    file.put(static_cast<char>(~std::to_integer<int>(state[0].bytes[200'000])));
  }
  CHECK_THAT(
      error_of([&] { read_all(reader, state); }),
      ContainsSubstring("5: " + (folder / "rank-00000.bin").string() +
                        " changed while it was read: chunk 0 had the right hash, and then other bytes"));
}

TEST_CASE("a damaged chunk is reported with file, bytes and both hashes; other tensors can be read") {
  const Scratch scratch;
  const fs::path folder = save(scratch / "root", 1, 2, state_of(1));
  const std::string before = text_of(folder / "rank-00001.bin");
  std::string after = before;
  after[5] ^= 1;
  write_text(folder / "rank-00001.bin", after);
  const auto hex = [](const std::string& text) { return to_hex(hash_of(std::as_bytes(std::span(text)))); };
  Reader reader(folder);
  std::vector<std::byte> out(17 * 2);
  CHECK_NOTHROW(reader.read("model/norm", 0, 17, out));
  CHECK(
      error_of([&] { reader.read("model/norm", 16, 33, out); }) ==
      fmt::format("5: {} is damaged: chunk 0 (bytes 0 to {}) has the hash {}, but the manifest says {}; use "
                  "another checkpoint (`rondo checkpoint verify` finds intact ones)",
                  (folder / "rank-00001.bin").string(), before.size(), hex(after), hex(before)));
}

TEST_CASE("an unknown tensor is an error that names the nearest one") {
  const Scratch scratch;
  Reader reader(save(scratch / "root", 1));
  CHECK_THAT(error_of([&] { reader.read("model/embde", 0, 0, {}); }),
             ContainsSubstring("step-1 has no tensor model/embde (did you mean model/embed?)"));
}

TEST_CASE("a folder that is not a committed checkpoint cannot be opened") {
  const Scratch scratch;
  CHECK(error_of([&] { Reader reader(scratch / "none"); }) ==
        "5: there is no checkpoint " + (scratch / "none").string());
  CHECK_THAT(error_of([] { Reader reader("Qwen/Qwen3-0.6B"); }),
             ContainsSubstring("5: there is no checkpoint Qwen/Qwen3-0.6B; nothing is fetched"));
}

}  // namespace rondo::checkpoint
