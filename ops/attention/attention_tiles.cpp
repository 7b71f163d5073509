// A head's block of queries, forward and backward. Compiled once for each set of vector
// instructions.
//
// Queries are in the lanes of vectors. Scores are transposed, [keys][queries]; so are queries
// (packed once per block), running maxima, sums and outputs. Every product multiplies one number of
// a key or value by a vector of queries, so keys and values need no transposition. Softmax is the
// same arithmetic in each lane, without a sum or maximum across lanes. Only sums of keys have the
// elements of keys in lanes.
//
// A hidden key has weight 0, which adds nothing: the bits of a lane depend on no other lane.
#include "ops/attention/attention_tiles.h"

#include "ops/attention/attention_query_tile.h"

namespace rondo::attention_tiles {
namespace {

// Queries transposed, [D][kQueries], and gradients of outputs, [V][kQueries]; for the backward also
// as rows.
template <class C>
struct PackedQueries : QueryTile<C> {
  C *q, *grad, *q_rows, *grad_rows;
};

// Widths of queries are padded to vectors.
template <class C>
struct Scratch {
  C *keys, *values;         // [kKeys][D], [kKeys][V]
  C *scores, *score_grads;  // [kKeys][kQueries]
  C* rows;                  // forward: of queries while they are packed
  PackedQueries<C> tiles[kBlockTiles];

  Scratch(Arena& arena, std::int64_t width, std::int64_t value_width, bool backward) {
    const std::int64_t q_width = padded<C>(width), out_width = padded<C>(value_width);
    keys = arena.take<C>(kKeys * width);
    values = arena.take<C>(kKeys * value_width);
    scores = arena.take<C>(kKeys * kQueries);
    (backward ? score_grads : rows) = arena.take<C>(backward ? kKeys * kQueries : kQueries * q_width);
    for (PackedQueries<C>& tile : tiles) {
      tile.take(arena, backward ? q_width : out_width);
      tile.q = arena.take<C>(q_width * kQueries);
      if (!backward) continue;
      tile.grad = arena.take<C>(out_width * kQueries);
      tile.q_rows = arena.take<C>(kQueries * q_width);
      tile.grad_rows = arena.take<C>(kQueries * out_width);
    }
  }
};

// Packs a tile's queries as rows and transposed.
template <class T, class C>
void pack_queries(const Rows<const T>& rows, std::int64_t first, std::int64_t queries, std::int64_t last,
                  std::int64_t width, C* as_rows, C* transposed) {
  const std::int64_t end = first + queries, padded_width = padded<C>(width);
  copy_rows(rows, nullptr, first, end, last, kQueries, width, padded_width, as_rows);
  for (int i = 0; i < kQueries; i += kLanes<C>)
    for (std::int64_t d = 0; d < padded_width; d += kLanes<C>)
      transpose(as_rows + i * padded_width + d, padded_width, transposed + d * kQueries + i, kQueries);
}

template <class T, class C>
void pack_keys(const Head<T>& head, std::int64_t first, std::int64_t end, Scratch<C>& scratch) {
  copy_rows(head.k, head.key_order, first, end, head.keys, end - first, head.width, head.width, scratch.keys);
  copy_rows(head.v, head.key_order, first, end, head.keys, end - first, head.value_width, head.value_width,
            scratch.values);
}

// Turns scores into weights and rescales sums and outputs to the new maxima.
template <class T, class C>
void softmax(QueryTile<C>& tile, const Cover& seen, C scale, std::int64_t value_width, C* scores) {
  const std::int64_t keys = seen.end - seen.first;
  for (int lane = 0; lane < kQueries; lane += kLanes<C>) {
    const Vector<C> before = lanes(tile.maximum + lane),
                    maximum = scale_and_maximum(tile, seen, scale, lane, scores);
    const Vector<C> offset = maximum == Vector<C>{} - infinity<C>() ? Vector<C>{} : maximum;
    const Vector<C> shrink = exp2(before - offset);
    Vector<C> sum = lanes(tile.sum + lane) * shrink;
    for (std::int64_t j = 0; j < keys; ++j) {
      C* const at = scores + j * kQueries + lane;
      const Vector<C> weight = exp2(lanes(at) - offset);
      sum += weight;
      lanes(at) = weight;
    }
    lanes(tile.maximum + lane) = maximum;
    lanes(tile.sum + lane) = sum;
    shrink_out(tile, shrink, value_width, lane);
  }
  if constexpr (sizeof(T) == 2)
    for (std::int64_t i = 0; i < keys * kQueries; i += kLanes<C>)
      lanes(scores + i) = rounded(lanes(scores + i));
}

template <class T>
void forward(const Forward<T>& head, std::int64_t first, std::int64_t end, std::byte* memory) {
  using C = SumOf<T>;
  Arena arena(memory);
  Scratch<C> scratch(arena, head.width, head.value_width, false);
  const C scale = static_cast<C>(head.scale * log2_e<double>());
  const Visible all =
      begin_block(head, first, end, scratch.tiles, [&](std::int64_t query, PackedQueries<C>& tile) {
        pack_queries(head.q, query, tile.queries, head.queries, head.width, scratch.rows, tile.q);
        begin_forward(head, tile, padded<C>(head.value_width));
      });
  const auto pack = [&](std::int64_t key, std::int64_t key_end) { pack_keys(head, key, key_end, scratch); };
  const auto run = [&](PackedQueries<C>& tile, std::int64_t key, const Cover& seen) {
    const std::int64_t keys = seen.end - seen.first, skipped = seen.first - key;
    product(keys, head.width, kQueries, scratch.keys + skipped * head.width, head.width, 1, tile.q, kQueries,
            scratch.scores, kQueries, false);
    softmax<T>(tile, seen, scale, head.value_width, scratch.scores);
    product(head.value_width, keys, kQueries, scratch.values + skipped * head.value_width, 1,
            head.value_width, scratch.scores, kQueries, tile.out, kQueries, true);
  };
  for_each_cover<1>(head, all, end - first, scratch.tiles, pack, run);
  for (int t = 0; t * kQueries < end - first; ++t) end_forward(head, first + t * kQueries, scratch.tiles[t]);
}

// Turns scores and gradients of weights into weights and gradients of scores, without the scale.
template <class T, class C>
void weights_and_score_grads(const QueryTile<C>& tile, const Cover& seen, C scale, C* scores,
                             C* score_grads) {
  const std::int64_t keys = seen.end - seen.first;
  for (int lane = 0; lane < kQueries; lane += kLanes<C>) {
    const Vector<C> logsumexp = lanes(tile.maximum + lane), mean = lanes(tile.sum + lane);
    for (std::int64_t j = 0; j < keys; ++j) {
      C *const at = scores + j * kQueries + lane, *const grad = score_grads + j * kQueries + lane;
      Vector<C> weight = exp2(lanes(at) * scale - logsumexp);
      if (!seen.full) weight = hidden(tile, seen.first + j, lane) ? Vector<C>{} : weight;
      lanes(at) = weight;
      lanes(grad) = weight * (lanes(grad) - mean);
    }
  }
  if constexpr (sizeof(T) == 2)
    for (std::int64_t i = 0; i < keys * kQueries; i += kLanes<C>) {
      lanes(scores + i) = rounded(lanes(scores + i));
      lanes(score_grads + i) = rounded(lanes(score_grads + i));
    }
}

template <class T>
void backward(const Backward<T>& head, std::int64_t first, std::int64_t end, std::byte* memory) {
  using C = SumOf<T>;
  Arena arena(memory);
  Scratch<C> scratch(arena, head.width, head.value_width, true);
  const C scale = static_cast<C>(head.scale * log2_e<double>());
  const std::int64_t width = padded<C>(head.width), value_width = padded<C>(head.value_width);
  const Visible all =
      begin_block(head, first, end, scratch.tiles, [&](std::int64_t query, PackedQueries<C>& tile) {
        if (head.grad_q.data == nullptr && (tile.lowest >= head.end_key || tile.upper <= head.first_key))
          return;
        for (std::int64_t i = query; i < query + tile.queries; ++i)
          prefetch(head.output[i], head.value_width);
        pack_queries(head.q, query, tile.queries, head.queries, head.width, tile.q_rows, tile.q);
        pack_queries(head.grad, query, tile.queries, head.queries, head.value_width, tile.grad_rows,
                     tile.grad);
        begin_backward(head, query, tile, width);
      });
  const auto pack = [&](std::int64_t key, std::int64_t key_end) { pack_keys(head, key, key_end, scratch); };
  const auto run = [&](PackedQueries<C>& tile, std::int64_t key, const Cover& seen) {
    const std::int64_t keys = seen.end - seen.first, skipped = seen.first - key;
    const C *const k = scratch.keys + skipped * head.width, *const v =
                                                                scratch.values + skipped * head.value_width;
    product(keys, head.width, kQueries, k, head.width, 1, tile.q, kQueries, scratch.scores, kQueries, false);
    product(keys, head.value_width, kQueries, v, head.value_width, 1, tile.grad, kQueries,
            scratch.score_grads, kQueries, false);
    weights_and_score_grads<T>(tile, seen, scale, scratch.scores, scratch.score_grads);
    if (head.grad_q.data != nullptr)
      product(head.width, keys, kQueries, k, 1, head.width, scratch.score_grads, kQueries, tile.out, kQueries,
              true);
    if (head.key_sums == nullptr) return;
    C* const sums = head.key_sums + (seen.first - head.first_key) * (width + value_width);
    product(keys, kQueries, width, scratch.score_grads, kQueries, 1, tile.q_rows, width, sums,
            width + value_width, true);
    product(keys, kQueries, value_width, scratch.scores, kQueries, 1, tile.grad_rows, value_width,
            sums + width, width + value_width, true);
  };
  for_each_cover<1>(head, asked(head, all), end - first, scratch.tiles, pack, run);
  if (head.grad_q.data == nullptr) return;
  for (int t = 0; t * kQueries < end - first; ++t) end_backward(head, first + t * kQueries, scratch.tiles[t]);
}

template <class T>
std::size_t scratch_bytes(std::int64_t width, std::int64_t value_width) {
  Arena forward(nullptr), backward(nullptr);
  [[maybe_unused]] const Scratch<SumOf<T>> a(forward, width, value_width, false),
      b(backward, width, value_width, true);
  return forward.used() > backward.used() ? forward.used() : backward.used();
}

template <class T>
constexpr Kernels<T> kernels = {&forward<T>, &backward<T>, &write_key_sums<T>, &scratch_bytes<T>,
                                &key_sums_bytes<T>};

}  // namespace

#define RONDO_NAME_OF(set) #set
#define RONDO_NAME(set) RONDO_NAME_OF(set)
const Tiles RONDO_TILES = {RONDO_NAME(RONDO_TILES), kernels<float>, kernels<Bf16>, kernels<double>};

}  // namespace rondo::attention_tiles
