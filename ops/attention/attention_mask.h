// The keys that a query sees, as an interval of positions. Every term of a mask gives an interval,
// and the query sees their intersection. So a tile of scores is full, partial or empty by four
// comparisons of bounds. No mask of tokens by tokens exists anywhere.
//
//   window    from `left` tokens before the query to `right` tokens after it; right = 0 is causal
//             (Child et al. 2019, arXiv 1904.10509; Jiang et al. 2023, arXiv 2310.06825)
//   document  the query's own document
//   chunk     the query's own piece of `chunk` tokens, counted from the beginning of its document,
//             so that results do not depend on where a document is packed (Llama 4)
//
// Positions count the tokens of a row of the batch, from 0. CPU, CUDA and plans share this file. No
// LibTorch.
#pragma once

#include <cstdint>

#include "ops/kernel/device.h"

namespace rondo {

struct AttentionMask {
  static constexpr std::int64_t kUnlimited = -1;

  std::int64_t left = kUnlimited;  // tokens, >= 0 or kUnlimited
  std::int64_t right = 0;          // tokens, >= 0 or kUnlimited
  std::int64_t chunk = 0;          // tokens; 0: no chunks

  bool operator==(const AttentionMask&) const = default;
};

// Positions from `first` up to but excluding `end`; empty if end <= first.
struct Span {
  std::int64_t first, end;
};

// Returns the positions that the query at `position` sees. `document` is its document.
RONDO_DEVICE constexpr Span visible_keys(const AttentionMask& mask, std::int64_t position, Span document) {
  std::int64_t first = document.first, end = document.end;
  if (mask.chunk > 0) {
    first += (position - first) / mask.chunk * mask.chunk;
    end = end < first + mask.chunk ? end : first + mask.chunk;
  }
  if (mask.left != AttentionMask::kUnlimited && first < position - mask.left) first = position - mask.left;
  if (mask.right != AttentionMask::kUnlimited && end > position + mask.right + 1)
    end = position + mask.right + 1;
  return {first, end};
}

// The mask as seen from keys: visible_keys(seen_from_keys(mask), ...) are the queries that see a
// key.
RONDO_DEVICE constexpr AttentionMask seen_from_keys(const AttentionMask& mask) {
  return {mask.right, mask.left, mask.chunk};
}

// Returns the same mask for rows of `tokens` tokens, without the terms that hide nothing.
constexpr AttentionMask effective_mask(AttentionMask mask, std::int64_t tokens) {
  if (mask.left >= tokens - 1) mask.left = AttentionMask::kUnlimited;
  if (mask.right >= tokens - 1 && mask.right > 0) mask.right = AttentionMask::kUnlimited;
  if (mask.chunk >= tokens) mask.chunk = 0;
  return mask;
}

// Returns the number of (query, key) pairs of a row of `tokens` tokens that is one document.
constexpr double attended_pairs(const AttentionMask& mask, std::int64_t tokens) {
  // Pairs of one piece, whose queries see the piece as far as the window reaches.
  const auto of_piece = [&mask](std::int64_t length) {
    const auto on_one_side = [length](std::int64_t limit) {
      const std::int64_t most = limit == AttentionMask::kUnlimited || limit >= length ? length - 1 : limit;
      return static_cast<double>(most) * (static_cast<double>(length) - static_cast<double>(most + 1) / 2);
    };
    return length == 0 ? 0.0 : static_cast<double>(length) + on_one_side(mask.left) + on_one_side(mask.right);
  };
  if (mask.chunk == 0) return of_piece(tokens);
  return static_cast<double>(tokens / mask.chunk) * of_piece(mask.chunk) + of_piece(tokens % mask.chunk);
}

}  // namespace rondo
