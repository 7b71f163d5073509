// Divides the tokens of a row among the ranks that share it (context parallelism). The work that is
// balanced is the number of (query, key) pairs that the masks of all layers allow. Plain C++,
// no LibTorch.
//
//   none       rank r has the r-th of n equal parts
//   headtail   of 2n equal parts rank r has parts r and 2n - 1 - r: equal pairs when a row is one
//              document (Llama team, "The Llama 3 Herd of Models", 2024, section 3.3.2)
//   documents  blocks of min(128, T / 2n) tokens. The block with the most pairs comes first, and
//              each goes to the rank with the fewest pairs that has room. Pairs are balanced for
//              any documents in a row and any masks (Graham, "Bounds on Multiprocessing Timing
//              Anomalies", 1969, with equal numbers of blocks)
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
  std::vector<AttentionMask> masks = {AttentionMask{}};  // one for each layer of the model
};

// Returns the number of tokens that the length of a row must be a multiple of, for `ranks` to
// share it.
std::int64_t context_unit(ContextBalance balance, std::int64_t ranks, std::int64_t seq_len);

// Assigns rows one after the other. The pairs of earlier rows count in the balance until begin().
class ContextSplit {
 public:
  // REQUIRES: seq_len is a multiple of its context_unit, and the masks are causal.
  ContextSplit(const ContextShare& share, std::int64_t seq_len);

  void begin();
  // Returns the positions in [0, T) of a row's tokens: first those of rank 0, ascending, then those
  // of rank 1, and so on. Each rank has T / n. `begins` holds where documents begin, ascending from
  // 0. Valid until the next call.
  std::span<const std::int32_t> deal(std::span<const std::int32_t> begins);
  // Returns (pairs of the busiest rank) / (mean pairs of all ranks) - 1, at least 0.
  double imbalance() const;

 private:
  void count_pairs(std::span<const std::int32_t> begins);
  void deal_blocks();

  ContextBalance balance_;
  std::int64_t block_, blocks_of_rank_;  // in tokens; in blocks
  struct LayersOfMask {
    AttentionMask mask;
    std::int64_t layers;
  };
  std::vector<LayersOfMask> masks_;  // distinct masks
  std::vector<std::int64_t> owner_;  // by block
  std::vector<double> block_pairs_;  // by block, of the latest row
  std::vector<double> pairs_;        // by rank, since begin()
  std::vector<std::int32_t> places_;
};

}  // namespace rondo
