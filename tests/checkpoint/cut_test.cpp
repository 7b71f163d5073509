// Tests that tensors saved with one cut, along any dimension, are read with any other.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "tests/checkpoint/states.h"
#include "tests/parallel/shares.h"
#include "tests/runs/metrics/scratch.h"

namespace rondo::checkpoint {
namespace {

namespace fs = std::filesystem;
using Bytes = std::vector<std::byte>;

// Returns the elements of the rank, without padding, each looked up separately.
Bytes shard_of(const TestTensor& tensor, const Shares& shares, std::int64_t rank) {
  const std::int64_t size = dtype_bytes(tensor.dtype);
  Bytes bytes;
  for (const auto& [in_shard, in_whole] : elements_at(tensor.shape, shares, rank)) {
    const auto from = tensor.bytes.begin() + in_whole * size;
    bytes.insert(bytes.end(), from, from + size);
  }
  return bytes;
}

fs::path save_shares(const fs::path& root, const TestTensor& tensor, const Shares& shares) {
  std::vector<Bytes> held;
  for (std::int64_t rank = 0; rank < shares.ranks(); ++rank) {
    held.push_back(shard_of(tensor, shares, rank));
    const FlatShard place = shares.of(tensor.shape, rank);
    held.back().resize(static_cast<std::size_t>(place.stored() * dtype_bytes(tensor.dtype)), std::byte{0xee});
  }
  return save_pieces(root, 1, static_cast<int>(shares.ranks()), [&](int rank) {
    return std::vector{piece_at(shares.of(tensor.shape, rank), tensor.name, tensor.dtype,
                                held[static_cast<std::size_t>(rank)])};
  });
}

void check_reads(Reader& reader, const TestTensor& tensor, const Shares& shares) {
  INFO("read as " << shares.name());
  for (std::int64_t rank = 0; rank < shares.ranks(); ++rank) {
    const Bytes expected = shard_of(tensor, shares, rank);
    Bytes out(expected.size(), std::byte{0xee});
    reader.read(tensor.name, shares.of(tensor.shape, rank), out);
    REQUIRE(out == expected);
  }
}

// Checks that the stored bytes and the manifest are those of the tensor, for every layout that
// reads it.
void check_round_trip(const TestTensor& tensor, const Shares& saved, const std::vector<Shares>& read) {
  INFO(fmt::format("[{}] saved as {}", fmt::join(tensor.shape, ", "), saved.name()));
  const Scratch scratch;
  Reader reader(save_shares(scratch / "root", tensor, saved));
  const ElementOrder order = reader.manifest().tensors[0].order;
  CHECK(order == (saved.parts == 1 || saved.dim == 0 ? ElementOrder{}
                                                     : ElementOrder{saved.dim, saved.parts, saved.blocks}));
  REQUIRE(equal(read_all(reader, {tensor}), {tensor}));
  REQUIRE(equal(read_all(reader, {tensor}, 3), {tensor}));
  for (const Shares& shares : read) check_reads(reader, tensor, shares);
}

}  // namespace

TEST_CASE("tensor-parallel and sharded layouts read what the others saved") {
  std::mt19937_64 random(1);
  const std::vector<Shares> layouts = {{1, 1, 1}, {1, 1, 4},    {1, 2, 1},    {1, 2, 3},
                                       {1, 4, 2}, {1, 8, 1},    {0, 2, 1},    {0, 4, 2},
                                       {0, 8, 1}, {1, 2, 3, 2}, {1, 4, 2, 2}, {1, 2, 1, 4}};
  const TestTensor matrix = random_tensor(random, "w", "bf16", {12, 16});
  for (const Shares& saved : layouts) check_round_trip(matrix, saved, layouts);
}

TEST_CASE("rows of a vocabulary that the ranks do not divide are stored without padding") {
  std::mt19937_64 random(2);
  const TestTensor table = random_tensor(random, "embed", "f32", {259, 4});
  const std::vector<Shares> layouts = {{0, 1, 1}, {0, 2, 1}, {0, 2, 2}, {0, 4, 1}, {0, 8, 3}, {1, 2, 2}};
  for (const Shares& saved : layouts) check_round_trip(table, saved, layouts);
  const Scratch scratch;
  const Reader reader(save_shares(scratch / "root", table, {0, 2, 1}));
  CHECK(reader.manifest().bytes() == 259 * 4 * 4);
  CHECK(reader.manifest().shards[1].bytes == 129 * 4 * 4);
}

TEST_CASE("any cut of any tensor is read as any other") {
  std::mt19937_64 random(3);
  const char* dtypes[] = {"f32", "bf16", "i64", "u8"};
  for (int round = 0; round < 150; ++round) {
    const TestTensor tensor = random_tensor(random, "w", dtypes[round % 4], random_sizes(random, 8));
    std::vector<Shares> read;
    for (int i = 0; i < 5; ++i) read.push_back(random_shares(random, tensor.shape, false));
    check_round_trip(tensor, random_shares(random, tensor.shape, false), read);
  }
}

TEST_CASE("the shards of a cut matrix are one run of the manifest for each part") {
  std::mt19937_64 random(4);
  const Scratch scratch;
  const TestTensor matrix = random_tensor(random, "w", "u8", {64, 64});
  const Reader reader(save_shares(scratch / "root", matrix, {1, 2, 4}));
  CHECK(reader.manifest().tensors[0].runs ==
        std::vector{Run{.shard = 0, .stride = 2, .shards = 4, .begin = 0, .each = 512},
                    Run{.shard = 1, .stride = 2, .shards = 4, .begin = 2048, .each = 512}});
}

TEST_CASE("a cut tensor of many chunks is read in any steps and layout, also after chunks were evicted") {
  std::mt19937_64 random(5);
  const Scratch scratch;
  const Shares saved{1, 20, 1};  // more files than a reader caches chunks
  const TestTensor matrix = random_tensor(random, "w", "i64", {200, 4000});
  Reader reader(save_shares(scratch / "root", matrix, saved));
  CHECK(equal(read_all(reader, {matrix}, 100), {matrix}));
  for (const Shares& shares : {saved, Shares{1, 2, 1}, Shares{1, 1, 3}, Shares{0, 3, 1}})
    check_reads(reader, matrix, shares);

  const Scratch other;
  const TestTensor large = random_tensor(random, "w", "i64", {1100, 4000});
  Reader large_reader(save_shares(other / "root", large, {1, 2, 1}));
  CHECK(large_reader.manifest().shards[1].chunks.size() == 2);
  for (const Shares& shares : {Shares{1, 2, 1}, Shares{1, 4, 1}}) check_reads(large_reader, large, shares);
}

TEST_CASE("a tensor in many shards is read with each shard opened once") {
  const auto open_files = [] {
    return std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator());
  };
  std::mt19937_64 random(7);
  const Scratch scratch;
  const TestTensor matrix = random_tensor(random, "w", "u8", {40, 10});
  const auto before = open_files();
  {
    Reader reader(save_shares(scratch / "root", matrix, {0, 40, 1}));
    CHECK(open_files() == before);
    CHECK(equal(read_all(reader, {matrix}, 100), {matrix}));
    CHECK(open_files() == before + 40);
  }
  CHECK(open_files() == before);
}

TEST_CASE("damaged elements of a part are reported, not returned") {
  std::mt19937_64 random(6);
  const Scratch scratch;
  const TestTensor matrix = random_tensor(random, "w", "u8", {10, 10});
  const fs::path folder = save_shares(scratch / "root", matrix, {1, 2, 1});
  std::string bytes = text_of(folder / "rank-00001.bin");
  bytes[3] ^= 1;
  write_text(folder / "rank-00001.bin", bytes);
  Reader reader(folder);
  Bytes out(50);
  CHECK_NOTHROW(reader.read("w", FlatShard({10, 10}, {1, 2, 0}, 1, 0), out));
  CHECK_THAT(error_of([&] {
               reader.read("w", FlatShard({10, 10}, {0, 2, 0}, 1, 0), out);
             }),
             Catch::Matchers::ContainsSubstring("rank-00001.bin is damaged: chunk 0"));
}

TEST_CASE("columns that the parts do not divide cannot be stored in a checkpoint") {
  CHECK_THROWS_AS(range_of(FlatShard({4, 7}, {1, 2, 0}, 1, 0)), Error);
  CHECK_THROWS_AS(piece_at(FlatShard({4, 7}, {1, 2, 0}, 1, 0), "w", "u8", {}), Error);
}

}  // namespace rondo::checkpoint
