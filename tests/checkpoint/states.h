// States of synthetic models, split over ranks in any way, saved and read again.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/committed.h"
#include "checkpoint/prune.h"
#include "checkpoint/reader.h"
#include "checkpoint/save.h"
#include "checkpoint/shard.h"
#include "support/text/utc_time.h"

namespace rondo::checkpoint {

// Tests make thousands of saves, so their files are in memory where there is room.
inline const bool kScratchIsInMemory = [] {
  std::error_code error;
  const bool roomy = std::filesystem::space("/dev/shm", error).available > (1u << 30) && !error;
  return roomy && setenv("TMPDIR", "/dev/shm", 0) == 0;
}();

struct TestTensor {
  std::string name, dtype;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> bytes;
  std::int64_t elements() const { return elements_of(shape, dtype); }
};
using TestState = std::vector<TestTensor>;

inline TestTensor random_tensor(std::mt19937_64& random, std::string name, std::string dtype,
                                std::vector<std::int64_t> shape) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(elements_of(shape, dtype) * dtype_bytes(dtype)));
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return {std::move(name), std::move(dtype), std::move(shape), std::move(bytes)};
}

// Returns the state of the synthetic trainer after `step` steps.
inline TestState state_of(std::int64_t step) {
  std::mt19937_64 random(static_cast<std::uint64_t>(step));
  return {random_tensor(random, "model/norm", "bf16", {33}),
          random_tensor(random, "model/embed", "f32", {16, 9}),
          random_tensor(random, "optimizer/step", "i64", {}),
          random_tensor(random, "optimizer/embed", "f32", {16, 9}),
          random_tensor(random, "model/nothing", "f32", {0, 4})};
}

// The range [first, second) of elements that a rank holds.
using Split = std::function<std::pair<std::int64_t, std::int64_t>(const TestTensor&, int rank, int ranks)>;

inline std::pair<std::int64_t, std::int64_t> even_split(const TestTensor& tensor, int rank, int ranks) {
  const std::int64_t each = (tensor.elements() + ranks - 1) / ranks;
  return {std::min(tensor.elements(), rank * each), std::min(tensor.elements(), (rank + 1) * each)};
}

inline std::vector<Piece> pieces_of(const TestState& state, int rank, int ranks, const Split& split) {
  std::vector<Piece> pieces;
  for (const TestTensor& tensor : state) {
    const auto [begin, end] = split(tensor, rank, ranks);
    const auto size = static_cast<std::size_t>(dtype_bytes(tensor.dtype));
    pieces.push_back(
        {tensor.name, tensor.dtype, tensor.shape, begin, end,
         std::span(tensor.bytes)
             .subspan(static_cast<std::size_t>(begin) * size, static_cast<std::size_t>(end - begin) * size)});
  }
  return pieces;
}

// Returns the train_state and data of a run after `step` steps of 4 sequences.
inline void put_position(Manifest& manifest, std::int64_t step) {
  manifest.step = step;
  manifest.train_state = {{"step", step},
                          {"schedule_step", step},
                          {"tokens_seen", 4 * 32 * step},
                          {"went_back_to", -1},
                          {"began_anew", nlohmann::json::array()}};
  manifest.data = {{"step", step},  {"sample", 4 * step}, {"seed", 42u},
                   {"seq_len", 32}, {"shuffle", true},    {"fingerprint", "0123456789abcdef"}};
}

inline Manifest empty_manifest(std::int64_t step) {
  Manifest manifest;
  put_position(manifest, step);
  manifest.run = "run-1";
  manifest.created = utc_now();
  manifest.model = {"llama3", "dim = 8", "0123"};
  manifest.config_hash = "4567";
  return manifest;
}

// Saves as a trainer does, with all ranks in this process. A failed save is abandoned.
inline std::filesystem::path save_pieces(const std::filesystem::path& root, std::int64_t step, int ranks,
                                         const std::function<std::vector<Piece>(int rank)>& pieces) {
  const std::filesystem::path temp = begin_save(root, step, "run-1", 1);
  try {
    std::int64_t bytes = 0;
    for (int rank = 0; rank < ranks; ++rank) bytes += shard_bytes(pieces(rank));
    check_space(temp, bytes, ranks + 2);
    Manifest manifest = empty_manifest(step);
    for (int rank = 0; rank < ranks; ++rank)
      manifest.add(parse_shard_record(to_text(write_shard(temp, rank, pieces(rank)))));
    return commit(root, temp, manifest);
  } catch (...) {
    abandon(temp);
    throw;
  }
}
inline std::filesystem::path save(const std::filesystem::path& root, std::int64_t step, int ranks,
                                  const TestState& state, const Split& split = even_split) {
  return save_pieces(root, step, ranks, [&](int rank) { return pieces_of(state, rank, ranks, split); });
}
inline std::filesystem::path save(const std::filesystem::path& root, std::int64_t step) {
  return save(root, step, 2, state_of(step));
}

// Saves weights alone, under "step-N" + `suffix`.
inline std::filesystem::path save_weights(const std::filesystem::path& root, std::int64_t step,
                                          std::string_view suffix) {
  const std::filesystem::path temp = begin_save(root, step, "run-1", 1);
  Manifest manifest = empty_manifest(step);
  manifest.kind = Kind::model;
  manifest.add(write_shard(temp, 0, pieces_of(state_of(step), 0, 1, even_split)));
  return commit(root, temp, manifest, suffix);
}

// Prunes as a process that has verified no checkpoint.
inline PrunePlan prune(const std::filesystem::path& root, int keep) {
  Proven proven;
  PrunePlan plan = plan_prune(root, keep, proven);
  carry_out(root, plan);
  return plan;
}

// Reads with the ranks of another layout and concatenates the results.
inline TestState read_all(Reader& reader, const TestState& like, int ranks = 1,
                          const Split& split = even_split) {
  TestState state = like;
  for (TestTensor& tensor : state) {
    std::fill(tensor.bytes.begin(), tensor.bytes.end(), std::byte{0xee});
    const auto size = static_cast<std::size_t>(dtype_bytes(tensor.dtype));
    for (int rank = 0; rank < ranks; ++rank) {
      const auto [begin, end] = split(tensor, rank, ranks);
      reader.read(
          tensor.name, begin, end,
          std::span(tensor.bytes)
              .subspan(static_cast<std::size_t>(begin) * size, static_cast<std::size_t>(end - begin) * size));
    }
  }
  return state;
}

inline bool equal(const TestState& a, const TestState& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const TestTensor& x, const TestTensor& y) {
    return x.name == y.name && x.bytes == y.bytes;
  });
}

// Returns whether a checkpoint has exactly `state`.
inline bool holds(const std::filesystem::path& folder, const TestState& state) {
  Reader reader(folder);
  return equal(read_all(reader, state), state);
}

}  // namespace rondo::checkpoint
