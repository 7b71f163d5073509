#include "datasets/context_split.h"

#include <algorithm>
#include <numeric>

#include "support/error.h"

namespace rondo {
namespace {

constexpr std::int64_t kBlock = 128;  // tokens of a tile of queries: attention can then skip whole tiles

std::int64_t block_of(ContextBalance balance, std::int64_t ranks, std::int64_t seq_len) {
  const std::int64_t half = std::max<std::int64_t>(1, seq_len / (2 * ranks));
  if (balance == ContextBalance::documents) return std::min(kBlock, half);
  return balance == ContextBalance::headtail ? half : std::max<std::int64_t>(1, seq_len / ranks);
}

}  // namespace

std::int64_t context_unit(ContextBalance balance, std::int64_t ranks, std::int64_t seq_len) {
  if (ranks == 1) return 1;
  if (balance == ContextBalance::none) return ranks;
  const bool whole_blocks = balance == ContextBalance::documents && seq_len >= 2 * ranks * kBlock;
  return whole_blocks ? ranks * kBlock : 2 * ranks;
}

ContextSplit::ContextSplit(const ContextShare& share, std::int64_t seq_len)
    : balance_(share.balance),
      block_(block_of(share.balance, share.ranks, seq_len)),
      blocks_of_rank_(seq_len / block_ / share.ranks),
      owner_(static_cast<std::size_t>(seq_len / block_)),
      block_pairs_(owner_.size()),
      pairs_(static_cast<std::size_t>(share.ranks)),
      places_(static_cast<std::size_t>(seq_len)) {
  RONDO_ASSERT(seq_len % context_unit(share.balance, share.ranks, seq_len) == 0,
               "ranks share a row in equal parts");
  for (const AttentionMask& mask : share.masks) {
    RONDO_ASSERT(mask.right == 0, "queries see no later keys");
    const auto it = std::find_if(masks_.begin(), masks_.end(), [&](const auto& m) { return m.mask == mask; });
    if (it == masks_.end())
      masks_.push_back({mask, 1});
    else
      ++it->layers;
  }
  const auto blocks = std::ssize(owner_);
  for (std::int64_t b = 0; b < blocks; ++b)
    owner_[static_cast<std::size_t>(b)] = balance_ == ContextBalance::none ? b : std::min(b, blocks - 1 - b);
}

void ContextSplit::begin() { std::fill(pairs_.begin(), pairs_.end(), 0); }

void ContextSplit::count_pairs(std::span<const std::int32_t> begins) {
  std::fill(block_pairs_.begin(), block_pairs_.end(), 0);
  const auto end = std::ssize(places_);
  for (std::size_t d = 0; d < begins.size(); ++d) {
    const std::int64_t first = begins[d], last = d + 1 < begins.size() ? begins[d + 1] : end;
    for (std::int64_t from = first; from < last;) {
      const std::int64_t to = std::min(last, (from / block_ + 1) * block_);
      // Masks are causal, so the pairs of a document up to a token do not depend on later tokens.
      for (const auto& [mask, layers] : masks_)
        block_pairs_[static_cast<std::size_t>(from / block_)] +=
            static_cast<double>(layers) *
            (attended_pairs(mask, to - first) - attended_pairs(mask, from - first));
      from = to;
    }
  }
}

void ContextSplit::deal_blocks() {
  std::vector<std::size_t> order(owner_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return block_pairs_[a] > block_pairs_[b]; });
  std::vector<std::int64_t> room(pairs_.size(), blocks_of_rank_);
  std::vector<double> pairs = pairs_;
  for (const std::size_t block : order) {
    std::size_t least_busy = pairs.size();
    for (std::size_t r = 0; r < pairs.size(); ++r)
      if (room[r] > 0 && (least_busy == pairs.size() || pairs[r] < pairs[least_busy])) least_busy = r;
    owner_[block] = static_cast<std::int64_t>(least_busy);
    pairs[least_busy] += block_pairs_[block];
    --room[least_busy];
  }
}

std::span<const std::int32_t> ContextSplit::deal(std::span<const std::int32_t> begins) {
  count_pairs(begins);
  if (balance_ == ContextBalance::documents) deal_blocks();
  const std::int64_t tokens_of_rank = block_ * blocks_of_rank_;
  std::vector<std::int64_t> next(pairs_.size());
  for (std::size_t r = 0; r < next.size(); ++r) next[r] = static_cast<std::int64_t>(r) * tokens_of_rank;
  for (std::size_t b = 0; b < owner_.size(); ++b) {
    const auto owner = static_cast<std::size_t>(owner_[b]);
    pairs_[owner] += block_pairs_[b];
    std::iota(places_.begin() + next[owner], places_.begin() + next[owner] + block_,
              static_cast<std::int32_t>(static_cast<std::int64_t>(b) * block_));
    next[owner] += block_;
  }
  return places_;
}

double ContextSplit::imbalance() const {
  const double total = std::accumulate(pairs_.begin(), pairs_.end(), 0.0);
  const double most = *std::max_element(pairs_.begin(), pairs_.end());
  return total == 0 ? 0 : most * static_cast<double>(pairs_.size()) / total - 1;
}

}  // namespace rondo
