// Tests that each rank of a context has equal numbers of tokens and equal work, and that every
// token is assigned once.
#include "datasets/context_split.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <numeric>
#include <random>

#include "datasets/loader.h"
#include "tests/datasets/rows_of_bytes.h"
#include "tests/datasets/temp_folder.h"

namespace rondo {
namespace {

using Places = std::vector<std::int32_t>;

Places deal(ContextSplit& split, const Places& begins) {
  const auto places = split.deal(begins);
  return {places.begin(), places.end()};
}

// Returns (pairs of the busiest rank) / (mean of the ranks) - 1, counted token by token.
double counted_imbalance(const Places& places, const Places& begins, std::int64_t ranks,
                         const std::vector<AttentionMask>& masks = {{}}) {
  const std::size_t each = places.size() / static_cast<std::size_t>(ranks);
  std::vector<double> pairs(static_cast<std::size_t>(ranks));
  for (std::size_t i = 0; i < places.size(); ++i) {
    const auto next = std::upper_bound(begins.begin(), begins.end(), places[i]);
    const Span document = {*(next - 1), next == begins.end() ? std::ssize(places) : *next};
    for (const AttentionMask& mask : masks) {
      const Span keys = visible_keys(mask, places[i], document);
      pairs[i / each] += static_cast<double>(keys.end - keys.first);
    }
  }
  const double total = std::accumulate(pairs.begin(), pairs.end(), 0.0);
  return *std::max_element(pairs.begin(), pairs.end()) * static_cast<double>(ranks) / total - 1;
}

// Returns where documents of 1 to `longest` tokens begin.
Places packed(std::int64_t tokens, std::int64_t longest, unsigned seed) {
  std::mt19937 random(seed);
  Places begins;
  for (std::int64_t at = 0; at < tokens;
       at += 1 + static_cast<std::int64_t>(random() % static_cast<unsigned>(longest)))
    begins.push_back(static_cast<std::int32_t>(at));
  return begins;
}

TEST_CASE("ranks without a balance have neighbouring tokens") {
  ContextSplit split({0, 2, ContextBalance::none}, 6);
  CHECK(deal(split, {0}) == Places{0, 1, 2, 3, 4, 5});
}

TEST_CASE("head-tail gives rank r the parts r and 2n - 1 - r, and a row of one document equal work") {
  ContextSplit split({0, 2, ContextBalance::headtail}, 8);
  CHECK(deal(split, {0}) == Places{0, 1, 6, 7, 2, 3, 4, 5});
  CHECK(split.imbalance() == 0);
}

TEST_CASE("every balance assigns each token once, in the order of its row, for any documents in a row") {
  const auto balance = GENERATE(ContextBalance::none, ContextBalance::headtail, ContextBalance::documents);
  for (const std::int64_t ranks : {2, 3, 4, 8}) {
    const std::int64_t tokens = context_unit(balance, ranks, 3000) * 5;
    ContextSplit split({0, ranks, balance}, tokens);
    for (const std::int64_t longest : {1, 50, 700, 100'000}) {
      const Places begins = packed(tokens, longest, 7);
      split.begin();
      Places places = deal(split, begins);
      const auto each = tokens / ranks;
      for (std::int64_t r = 0; r < ranks; ++r)
        REQUIRE(std::is_sorted(places.begin() + r * each, places.begin() + (r + 1) * each));
      REQUIRE_THAT(split.imbalance(),
                   Catch::Matchers::WithinAbs(counted_imbalance(places, begins, ranks), 1e-12));
      std::sort(places.begin(), places.end());
      Places all(static_cast<std::size_t>(tokens));
      std::iota(all.begin(), all.end(), 0);
      REQUIRE(places == all);
    }
  }
}

TEST_CASE("blocks assigned by pairs keep the imbalance within 3 % where head-tail does not") {
  constexpr std::int64_t kRanks = 8, kTokens = 8192;
  double worst = 0, worst_by_parts = 0;
  for (unsigned seed = 0; seed < 50; ++seed)
    for (const std::int64_t longest : {300, 2000, 6000, 8192}) {
      const Places begins = packed(kTokens, longest, seed);
      ContextSplit split({0, kRanks, ContextBalance::documents}, kTokens),
          by_parts({0, kRanks, ContextBalance::headtail}, kTokens);
      split.deal(begins);
      by_parts.deal(begins);
      worst = std::max(worst, split.imbalance());
      worst_by_parts = std::max(worst_by_parts, by_parts.imbalance());
    }
  CHECK(worst <= 0.03);
  CHECK(worst_by_parts > 0.5);
}

TEST_CASE("blocks are assigned by the pairs of all layers, for any masks") {
  constexpr std::int64_t kRanks = 8;
  constexpr AttentionMask kCausal, kWindow = {.left = 127}, kChunks = {.chunk = 2048};
  // A single mask, the masks of gpt-oss, the masks of Llama 4.
  for (const std::vector<AttentionMask>& masks : std::vector<std::vector<AttentionMask>>{
           {kWindow}, {kChunks}, {kWindow, kCausal}, {kChunks, kChunks, kChunks, kCausal}})
    for (const std::int64_t tokens : {8192, 32768})
      for (const std::int64_t longest : {300, 6000, 32768})
        for (unsigned seed = 0; seed < 5; ++seed) {
          const Places begins = packed(tokens, longest, seed);
          ContextSplit split({0, kRanks, ContextBalance::documents, masks}, tokens);
          const Places places = deal(split, begins);
          REQUIRE(split.imbalance() <= 0.03);
          REQUIRE_THAT(split.imbalance(),
                       Catch::Matchers::WithinAbs(counted_imbalance(places, begins, kRanks, masks), 1e-12));
        }
  // With chunks, head and tail of a row have no more pairs than its middle, so head-tail does
  // not balance.
  ContextSplit by_parts({0, kRanks, ContextBalance::headtail, {kChunks}}, 8192 + 1024);
  by_parts.deal(Places{0});
  CHECK(by_parts.imbalance() > 0.1);
}

TEST_CASE("rows of a step are balanced together") {
  constexpr std::int64_t kRanks = 4, kTokens = 64;
  ContextSplit split({0, kRanks, ContextBalance::documents}, kTokens);
  double alone = 0;
  for (unsigned row = 0; row < 8; ++row) {
    ContextSplit single({0, kRanks, ContextBalance::documents}, kTokens);
    single.deal(packed(kTokens, 40, row));
    alone = std::max(alone, single.imbalance());
    split.deal(packed(kTokens, 40, row));
  }
  CHECK(split.imbalance() < alone / 2);
}

TEST_CASE("lengths that ranks can share are multiples of the unit of the balance") {
  CHECK(context_unit(ContextBalance::headtail, 1, 7) == 1);
  CHECK(context_unit(ContextBalance::none, 8, 4096) == 8);
  CHECK(context_unit(ContextBalance::headtail, 8, 4096) == 16);
  CHECK(context_unit(ContextBalance::documents, 8, 8192) == 1024);  // whole blocks of 128
  CHECK(context_unit(ContextBalance::documents, 8, 512) == 16);     // two blocks per rank
}

TEST_CASE("the ranks of a context together have the batch of one rank, in the order of key_positions") {
  TempFolder folder;
  for (const char* name : {"a", "b", "c", "d"})
    folder.write(name, std::string(static_cast<std::size_t>(5 + 17 * (name[0] - 'a')), name[0]));
  DataOptions options;
  options.path = folder.path();
  options.seq_len = 24;
  options.num_prefetch_batches = 0;
  options.local_batch = 2;
  options.document_attention = GENERATE(false, true);
  const Batch whole = DataLoader(options, kTokenizer).next().microbatches[0];
  options.context.ranks = 3;
  options.context.balance =
      GENERATE(ContextBalance::none, ContextBalance::headtail, ContextBalance::documents);
  std::int64_t valid = 0;
  for (options.context.rank = 0; options.context.rank < 3; ++options.context.rank) {
    const StepBatch step = DataLoader(options, kTokenizer).next();
    const Batch& part = step.microbatches[0];
    CHECK(step.tokens == 16);
    CHECK(part.cu_seqlens == whole.cu_seqlens);
    for (std::size_t i = 0; i < 16; ++i) {
      const std::size_t row = i / 8, at = row * 24 + static_cast<std::size_t>(part.query_positions[i]);
      REQUIRE(part.query_positions[i] ==
              part.key_positions[row * 24 + static_cast<std::size_t>(options.context.rank) * 8 + i % 8]);
      REQUIRE(part.tokens[i] == whole.tokens[at]);
      REQUIRE(part.labels[i] == whole.labels[at]);
      REQUIRE(part.positions[i] == whole.positions[at]);
    }
    valid += part.valid_tokens;
  }
  CHECK(valid == whole.valid_tokens);
}

TEST_CASE("eight ranks share the attention of the default corpus within 3 % in rows of 8,192 tokens") {
  DataOptions options;
  options.path = RONDO_SOURCE_DIR "/data/corpus";
  options.seq_len = 8192;
  options.document_attention = true;
  options.context = {0, 8, ContextBalance::documents};
  DataLoader loader(options, kTokenizer);
  for (int step = 0; step < 5; ++step) CHECK(loader.next().attention_imbalance <= 0.03);
}

}  // namespace
}  // namespace rondo
