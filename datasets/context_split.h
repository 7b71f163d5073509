// Which tokens of a row each of the ranks has that share it (context parallelism). A query meets the keys
// that the mask of a layer lets it see, so tokens are not equal work: pairs of query and key, over all
// layers, are what is balanced. Plain C++, no LibTorch.
//
//   none       rank r has the r-th of n equal parts
//   headtail   of 2n equal parts rank r has r and 2n - 1 - r: equal pairs where a row is one document (Llama
//              team, "The Llama 3 Herd of Models", 2024, section 3.3.2)
//   documents  blocks of min(128, T / 2n) tokens, the one with most pairs first, each to the rank with fewest
//              that has room: equal pairs whatever documents a row and masks a model has (Graham, "Bounds on
//              Multiprocessing Timing Anomalies", 1969, with equal numbers of blocks)
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/attention/attention_mask.h"

namespace rondo {

enum class ContextBalance : std::uint8_t { none, headtail, documents };

struct ContextShare {
  std::int64_t rank = 0, ranks = 1;
  ContextBalance balance = ContextBalance::none;
  std::vector<AttentionMask> masks = {AttentionMask{}};  // of the model's layers
};

// Rows of a length that n ranks can share are multiples of this many tokens.
std::int64_t context_unit(ContextBalance balance, std::int64_t ranks, std::int64_t seq_len);

// Deals row after row; pairs of earlier rows count, until begin().
class ContextSplit {
 public:
  // REQUIRES: seq_len is a multiple of its context_unit, and the masks are causal.
  ContextSplit(const ContextShare& share, std::int64_t seq_len);

  void begin();
  // The places in [0, T) of a row's tokens: first those of rank 0, ascending, then those of rank 1, ... Each
  // rank has T / n. `begins`: where documents begin, ascending from 0. Valid until the next call.
  std::span<const std::int32_t> deal(std::span<const std::int32_t> begins);
  // How many pairs the busiest rank has above the mean of all, as a share of that mean: at least 0.
  double imbalance() const;

 private:
  void count_pairs(std::span<const std::int32_t> begins);
  void deal_blocks();

  ContextBalance balance_;
  std::int64_t block_, blocks_of_rank_;  // tokens; blocks
  struct LayersOfMask {
    AttentionMask mask;
    std::int64_t layers;
  };
  std::vector<LayersOfMask> masks_;  // each once
  std::vector<std::int64_t> owner_;  // by block
  std::vector<double> block_pairs_;  // by block, of the latest row
  std::vector<double> pairs_;        // by rank, since begin()
  std::vector<std::int32_t> places_;
};

}  // namespace rondo
