// Reductions over real Gloo groups. Ranks are threads of this process with a store in memory.
#include "parallel/groups/ordered_gloo.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>

#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "tests/parallel/rank_threads.h"

namespace rondo {
namespace {

// Returns a deterministic contribution of one rank. Magnitudes differ so much that the order of a
// sum changes its bits.
at::Tensor contribution(int rank, std::int64_t elements) {
  at::Tensor x = at::empty({elements});
  for (std::int64_t i = 0; i < elements; ++i)
    x.data_ptr<float>()[i] = static_cast<float>((i * 37 + rank * 101) % 97 - 48) * (rank == 1 ? 1e6f : 1e-3f);
  return x;
}

// Counts the bytes written and the requests.
class CountingStore final : public c10d::PrefixStore {
 public:
  CountingStore() : c10d::PrefixStore("", c10::make_intrusive<c10d::HashStore>()) {}
  void set(const std::string& key, const std::vector<std::uint8_t>& value) override {
    bytes += std::ssize(value);
    c10d::PrefixStore::set(key, value);
  }
  std::vector<std::uint8_t> get(const std::string& key) override {
    ++requests;
    return c10d::PrefixStore::get(key);
  }
  std::vector<std::vector<std::uint8_t>> multiGet(const std::vector<std::string>& keys) override {
    ++requests;
    return c10d::PrefixStore::multiGet(keys);
  }
  std::atomic<std::int64_t> bytes = 0, requests = 0;
};

}  // namespace

TEST_CASE("a rank's bytes in the store do not grow with the group, and one request reads many ranks") {
  std::vector<std::int64_t> bytes_per_rank;
  for (const int ranks : {2, 8}) {
    const auto store = c10::make_intrusive<CountingStore>();
    on_gloo(
        ranks, [](int, OrderedGloo& group) { group.barrier({})->wait(); }, store);
    bytes_per_rank.push_back(store->bytes / ranks);
    CHECK(store->requests <= 3 * ranks);
  }
  CHECK(bytes_per_rank[0] == bytes_per_rank[1]);
}

TEST_CASE("a reduce-scatter adds in rank order for any number of ranks") {
  const int ranks = GENERATE(2, 3, 4);
  constexpr std::int64_t kShard = 1001;
  std::vector<at::Tensor> results(static_cast<std::size_t>(ranks));
  on_gloo(ranks, [&](int rank, OrderedGloo& group) {
    at::Tensor input = contribution(rank, kShard * ranks), output = at::empty({kShard});
    group._reduce_scatter_base(output, input, {})->wait();
    results[static_cast<std::size_t>(rank)] = output;
  });
  at::Tensor expected = contribution(0, kShard * ranks);
  for (int rank = 1; rank < ranks; ++rank) expected = expected + contribution(rank, kShard * ranks);
  CHECK(at::equal(at::cat(results), expected));
}

TEST_CASE("an element's sum does not depend on the buffer it is packed in") {
  constexpr int kRanks = 3;
  constexpr std::int64_t kSmall = 7, kLarge = 4096 + 13;
  std::vector<at::Tensor> alone(kRanks), packed(kRanks);
  on_gloo(kRanks, [&](int rank, OrderedGloo& group) {
    at::Tensor small = contribution(rank, kSmall);
    at::Tensor large = at::cat({contribution(rank + 5, kLarge), small});
    std::vector<at::Tensor> small_list{small}, large_list{large};
    group.allreduce(small_list, {})->wait();
    group.allreduce(large_list, {})->wait();
    alone[static_cast<std::size_t>(rank)] = small_list[0];
    packed[static_cast<std::size_t>(rank)] = large_list[0].narrow(0, kLarge, kSmall);
  });
  for (int rank = 0; rank < kRanks; ++rank) {
    CHECK(at::equal(alone[static_cast<std::size_t>(rank)], packed[static_cast<std::size_t>(rank)]));
    CHECK(at::equal(alone[0], alone[static_cast<std::size_t>(rank)]));
  }
}

TEST_CASE("gathers are exact and in rank order, in bf16 too") {
  constexpr int kRanks = 3;
  on_gloo(kRanks, [&](int rank, OrderedGloo& group) {
    at::Tensor mine = at::full({5}, rank + 0.5, at::TensorOptions().dtype(at::kBFloat16));
    at::Tensor all = at::empty({5 * kRanks}, mine.options());
    group._allgather_base(all, mine, {})->wait();
    for (int other = 0; other < kRanks; ++other) {
      const at::Tensor part = all.narrow(0, other * 5, 5);
      const bool matches = at::equal(part, at::full({5}, other + 0.5, mine.options()));
      if (!matches) throw std::runtime_error("a gather is wrong");
    }
  });
  SUCCEED();
}

// With two threads a group, Gloo's default, this corrupts the heap.
TEST_CASE("thousands of collectives, several in flight at a time, do not corrupt the heap") {
  constexpr int kRanks = 2, kRounds = 1500, kInFlight = 4;
  on_gloo(kRanks, [&](int rank, OrderedGloo& group) {
    for (int round = 0; round < kRounds; ++round) {
      std::vector<c10::intrusive_ptr<c10d::Work>> works;
      std::vector<at::Tensor> gathered;
      for (int i = 0; i < kInFlight; ++i) {
        std::vector<at::Tensor> mine{at::full({3}, 1.0 * round + rank)}, all{at::empty({3 * kRanks})};
        works.push_back(group.allgather_into_tensor_coalesced(all, mine, {}));
        gathered.push_back(all[0]);
      }
      for (const auto& work : works) work->wait();
      for (const at::Tensor& all : gathered)
        if (all[3].item<float>() != static_cast<float>(round + 1))
          throw std::runtime_error("a gather is wrong");
    }
  });
  SUCCEED();
}

}  // namespace rondo
