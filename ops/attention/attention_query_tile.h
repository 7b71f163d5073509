// Shared by attention_tiles.cpp and attention_pairs.cpp, and included only there: a tile of
// queries, its visible part of tiles of keys, and the maxima and ends of softmax. RONDO_TILES is as
// in attention_lanes.h.
#pragma once

#include "ops/attention/attention_rows.h"

namespace rondo::attention_tiles {
namespace {

// Allocates parts of scratch memory. With a null address it only measures.
class Arena {
 public:
  explicit Arena(std::byte* data) : data_(reinterpret_cast<std::uintptr_t>(data)) {}
  template <class X>
  X* take(std::int64_t count) {
    X* const part = reinterpret_cast<X*>(data_ + used_);
    used_ += (static_cast<std::size_t>(count) * sizeof(X) + kAlignment - 1) / kAlignment * kAlignment;
    return part;
  }
  std::size_t used() const { return used_; }

 private:
  std::uintptr_t data_;
  std::size_t used_ = 0;
};

// A tile of queries. Per-query values are in lanes: [...][kQueries].
template <class C>
struct QueryTile {
  using Integer = typename LanesOf<C>::Integer;
  std::int64_t queries;        // existing queries; values of the others are ignored
  Integer *first, *end;        // positions that each query sees
  std::int64_t lowest, upper;  // that any query sees; lowest >= upper: no position
  C* out;                      // outputs so far, [V]; backward: gradients of queries, [D]
  C *maximum, *sum;            // of scores in units of log 2, and of their exponentials;
                               // backward: logsumexp in these units, and grad * output

  void take(Arena& arena, std::int64_t out_width) {
    first = arena.take<Integer>(kQueries), end = arena.take<Integer>(kQueries);
    out = arena.take<C>(out_width * kQueries);
    maximum = arena.take<C>(kQueries), sum = arena.take<C>(kQueries);
  }
};

template <class T, class C>
void begin_tile(const Head<T>& head, std::int64_t first, std::int64_t end, QueryTile<C>& tile) {
  tile.queries = end - first < kQueries ? end - first : kQueries;
  tile.lowest = head.keys, tile.upper = 0;
  for (int i = 0; i < kQueries; ++i) {
    // The missing queries see what the last one sees.
    const Visible seen = head.visible[i < tile.queries ? first + i : end - 1];
    tile.first[i] = seen.first, tile.end[i] = seen.end;
    if (seen.first >= seen.end) continue;
    if (seen.first < tile.lowest) tile.lowest = seen.first;
    if (seen.end > tile.upper) tile.upper = seen.end;
  }
}

// Fills the tiles of queries from `first` to `end` and calls begin(first query, tile) for each.
// Returns the positions that any of them sees.
template <class T, class Tile, class Begin>
Visible begin_block(const Head<T>& head, std::int64_t first, std::int64_t end, Tile* tiles,
                    const Begin& begin) {
  Visible all = {static_cast<std::int32_t>(head.keys), 0};
  for (int t = 0; t * kQueries < end - first; ++t) {
    Tile& tile = tiles[t];
    begin_tile(head, first + t * kQueries, end, tile);
    if (tile.lowest < all.first) all.first = static_cast<std::int32_t>(tile.lowest);
    if (tile.upper > all.end) all.end = static_cast<std::int32_t>(tile.upper);
    begin(first + t * kQueries, tile);
  }
  return all;
}

// The part of positions [first, end) that a tile of queries sees, widened to multiples of kStep.
struct Cover {
  std::int64_t first, end;  // empty if end <= first
  bool full;                // every query sees all of it
};
template <int kStep, class C>
Cover cover(const QueryTile<C>& tile, std::int64_t first, std::int64_t end) {
  std::int64_t from = end, to = first, latest = first, earliest = end;
  for (int i = 0; i < kQueries; ++i) {
    const std::int64_t a = tile.first[i] > first ? tile.first[i] : first,
                       b = tile.end[i] < end ? tile.end[i] : end;
    if (a > latest) latest = a;
    if (b < earliest) earliest = b;
    if (a >= b) continue;
    if (a < from) from = a;
    if (b > to) to = b;
  }
  if (from >= to) return {from, to, false};
  from = from / kStep * kStep, to = (to + kStep - 1) / kStep * kStep;
  return {from, to, latest <= from && earliest >= to};
}

// Limits `seen` to the keys of a backward.
template <class T>
Visible asked(const Backward<T>& head, Visible seen) {
  if (seen.first < head.first_key) seen.first = static_cast<std::int32_t>(head.first_key);
  if (seen.end > head.end_key) seen.end = static_cast<std::int32_t>(head.end_key);
  return seen;
}

// Iterates over tiles of keys with positions in `range` and, for each, the query tiles of a block
// that see part of it. Calls run(tile, first position of the tile of keys, visible part). Calls
// pack(first, end) once before, for a tile of keys that any of them sees.
template <int kStep, class T, class Tile, class Pack, class Run>
inline void for_each_cover(const Head<T>& head, const Visible& range, std::int64_t queries, Tile* tiles,
                           const Pack& pack, const Run& run) {
  for (std::int64_t key = range.first / kKeys * kKeys; key < range.end; key += kKeys) {
    const std::int64_t end = key + kKeys < head.keys ? key + kKeys : head.keys;
    bool packed = false;
    for (int t = 0; t * kQueries < queries; ++t) {
      const Cover seen = cover<kStep>(tiles[t], key, end);
      if (seen.first >= seen.end) continue;
      if (!packed) pack(key, end);
      packed = true;
      run(tiles[t], key, seen);
    }
  }
}

// Returns a mask of the lanes that do not see the key at `position`.
template <class C>
inline auto hidden(const QueryTile<C>& tile, std::int64_t position, int lane) {
  using Integers = typename LanesOf<C>::Integers;
  const auto at = static_cast<typename LanesOf<C>::Integer>(position);
  return (*reinterpret_cast<const Integers*>(tile.first + lane) > at) |
         (*reinterpret_cast<const Integers*>(tile.end + lane) <= at);
}

// Scales scores of a vector of queries to units of log 2 and sets those of hidden keys to
// -infinity. Returns the maximum of the scores and the tile's maximum.
template <class C>
inline Vector<C> scale_and_maximum(const QueryTile<C>& tile, const Cover& seen, C scale, int lane,
                                   C* scores) {
  const Vector<C> none = Vector<C>{} - infinity<C>();
  Vector<C> maximum = lanes(tile.maximum + lane);
  for (std::int64_t j = 0; j < seen.end - seen.first; ++j) {
    Vector<C>& score = lanes(scores + j * kQueries + lane);
    score *= scale;
    if (!seen.full) score = hidden(tile, seen.first + j, lane) ? none : score;
    maximum = score > maximum ? score : maximum;
  }
  return maximum;
}

// Rescales the outputs of a vector of queries to new maxima; often no maximum is new.
template <class C>
inline void shrink_out(const QueryTile<C>& tile, Vector<C> shrink, std::int64_t width, int lane) {
  const auto same = shrink == Vector<C>{} + 1;
  typename LanesOf<C>::Integer all = -1;
  for (int i = 0; i < kLanes<C>; ++i) all &= same[i];
  if (all == -1) return;
  for (std::int64_t d = 0; d < width; ++d) lanes(tile.out + d * kQueries + lane) *= shrink;
}

// Before the first key: the sink acts as a key without a value.
template <class T, class C>
void begin_forward(const Forward<T>& head, QueryTile<C>& tile, std::int64_t out_width) {
  const C sink = static_cast<C>(head.sink) * log2_e<C>();
  for (int i = 0; i < kQueries; ++i)
    tile.maximum[i] = sink, tile.sum[i] = sink == -infinity<C>() ? C(0) : C(1);
  for (std::int64_t i = 0; i < out_width * kQueries; ++i) tile.out[i] = 0;
}

template <class T, class C>
void end_forward(const Forward<T>& head, std::int64_t first, const QueryTile<C>& tile) {
  C inverse[kQueries];
  for (int i = 0; i < kQueries; ++i) inverse[i] = tile.sum[i] == 0 ? C(0) : C(1) / tile.sum[i];
  write_rows(tile.out, inverse, tile.queries, head.value_width, head.output, first);
  for (std::int64_t i = 0; i < tile.queries; ++i)
    *head.logsumexp[first + i] =
        tile.sum[i] == 0 ? infinity<C>() : (tile.maximum[i] + log2(tile.sum[i])) / log2_e<C>();
}

// Computes the values that every key's part of a query's gradient uses.
template <class T, class C>
void begin_backward(const Backward<T>& head, std::int64_t first, QueryTile<C>& tile, std::int64_t out_width) {
  for (std::int64_t i = 0; i < out_width * kQueries; ++i) tile.out[i] = 0;
  for (int i = 0; i < kQueries; ++i) {
    const bool exists = i < tile.queries;
    tile.sum[i] = exists ? dot(head.grad[first + i], head.output[first + i], head.value_width) : C(0);
    tile.maximum[i] = exists ? *head.logsumexp[first + i] * log2_e<C>() : infinity<C>();
  }
}

template <class T, class C>
void end_backward(const Backward<T>& head, std::int64_t first, const QueryTile<C>& tile) {
  C scale[kQueries];
  for (C& x : scale) x = static_cast<C>(head.scale);
  write_rows(tile.out, scale, tile.queries, head.width, head.grad_q, first);
}

}  // namespace
}  // namespace rondo::attention_tiles
