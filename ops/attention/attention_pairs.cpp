// Like attention_tiles.cpp, for bf16 on machines that multiply it in pairs. Scores are transposed
// here, too, and queries are in lanes. Three things differ. Operands are packed in the layout of
// the products, so keys or values are transposed once per block of queries. The visible part of a
// tile of keys is widened to multiples of 32. Weights are rounded when they are packed.
#include "ops/attention/attention_pairs.h"

#include "ops/attention/attention_query_tile.h"

namespace rondo::attention_tiles {
namespace {

// Pairs of neighbors in a row, [D / 2][kQueries], and pairs of queries, [kQueries / 2][D].
struct PackedQueries : QueryTile<float> {
  Pair *q, *grad, *q_pairs, *grad_pairs;
};

// Widths are padded with zeros to multiples of kDepth.
struct Scratch {
  std::int64_t width, value_width;
  Bf16 *keys, *values;            // [kKeys][width]
  Bf16* columns;                  // values transposed, [width][kKeys]; backward: keys
  Bf16* rows;                     // of queries while they are packed, [kQueries][width]
  Pair* pairs;                    // of keys while they are transposed, [kKeys / 2][width]
  float *scores, *score_grads;    // [kKeys][kQueries]
  Pair* score_pairs;              // weights, [kKeys / 2][kQueries]; backward: gradients of scores
  Bf16 *weight_rows, *grad_rows;  // backward: weights and gradients of scores, [kKeys][kQueries]
  PackedQueries tiles[kBlockTiles];

  Scratch(Arena& arena, std::int64_t own_width, std::int64_t own_value_width, bool backward)
      : width(up_to(kDepth, own_width)), value_width(up_to(kDepth, own_value_width)) {
    const std::int64_t widest = width > value_width ? width : value_width;
    keys = arena.take<Bf16>(kKeys * width), values = arena.take<Bf16>(kKeys * value_width);
    columns = arena.take<Bf16>(kKeys * widest), rows = arena.take<Bf16>(kQueries * widest);
    pairs = arena.take<Pair>(kKeys / 2 * widest);
    scores = arena.take<float>(kKeys * kQueries), score_pairs = arena.take<Pair>(kKeys / 2 * kQueries);
    if (backward) {
      score_grads = arena.take<float>(kKeys * kQueries);
      weight_rows = arena.take<Bf16>(kKeys * kQueries), grad_rows = arena.take<Bf16>(kKeys * kQueries);
    }
    for (PackedQueries& tile : tiles) {
      tile.take(arena, backward ? width : value_width);
      tile.q = arena.take<Pair>(width / 2 * kQueries);
      if (!backward) continue;
      tile.grad = arena.take<Pair>(value_width / 2 * kQueries);
      tile.q_pairs = arena.take<Pair>(kQueries / 2 * width);
      tile.grad_pairs = arena.take<Pair>(kQueries / 2 * value_width);
    }
  }
};

// transpose() of f32, which is as wide as a pair.
void transpose_pairs(const Pair* from, std::int64_t from_distance, Pair* to, std::int64_t to_distance) {
  transpose(reinterpret_cast<const float*>(from), from_distance, reinterpret_cast<float*>(to), to_distance);
}

// Packs a tile's queries in pairs along their rows and, if `across` is set, in pairs of queries.
void pack_queries(const Rows<const Bf16>& rows, std::int64_t first, std::int64_t queries, std::int64_t last,
                  std::int64_t width, std::int64_t padded_width, Bf16* copy, Pair* along, Pair* across) {
  copy_rows(rows, nullptr, first, first + queries, last, kQueries, width, padded_width, copy);
  for (int i = 0; i < kQueries; i += kSide)
    for (std::int64_t d = 0; d < padded_width / 2; d += kSide)
      transpose_pairs(reinterpret_cast<const Pair*>(copy + i * padded_width) + d, padded_width / 2,
                      along + d * kQueries + i, kQueries);
  if (across != nullptr) pair_rows(copy, kQueries, padded_width, across, padded_width);
}

// Packs a tile of keys or values as columns, [padded_width][kKeys].
void pack_columns(const Bf16* rows, std::int64_t padded_width, Pair* pairs, Bf16* columns) {
  pair_rows(rows, kKeys, padded_width, pairs, padded_width);
  for (std::int64_t j = 0; j < kKeys / 2; j += kSide)
    for (std::int64_t d = 0; d < padded_width; d += kSide)
      transpose_pairs(pairs + j * padded_width + d, padded_width,
                      reinterpret_cast<Pair*>(columns + d * kKeys) + j, kKeys / 2);
}

void pack_keys(const Head<Bf16>& head, std::int64_t first, std::int64_t end, const Scratch& scratch) {
  copy_rows(head.k, head.key_order, first, end, head.keys, kKeys, head.width, scratch.width, scratch.keys);
  copy_rows(head.v, head.key_order, first, end, head.keys, kKeys, head.value_width, scratch.value_width,
            scratch.values);
}

// Turns scores into weights, in pairs of keys, and rescales sums and outputs to the new maxima.
void softmax(PackedQueries& tile, const Cover& seen, float scale, std::int64_t value_width, float* scores,
             Pair* weights) {
  for (int lane = 0; lane < kQueries; lane += kSide) {
    const Vector<float> before = lanes(tile.maximum + lane),
                        maximum = scale_and_maximum<float>(tile, seen, scale, lane, scores),
                        offset = maximum == Vector<float>{} - infinity<float>() ? Vector<float>{} : maximum,
                        shrink = exp2(before - offset);
    Vector<float> sum = lanes(tile.sum + lane) * shrink;
    for (std::int64_t j = 0; j < seen.end - seen.first; j += 2) {
      const Vector<float> weight = exp2(lanes(scores + j * kQueries + lane) - offset),
                          next = exp2(lanes(scores + (j + 1) * kQueries + lane) - offset);
      sum += weight;
      sum += next;
      _mm512_store_si512(weights + j / 2 * kQueries + lane, rounded_pairs(weight, next));
    }
    lanes(tile.maximum + lane) = maximum;
    lanes(tile.sum + lane) = sum;
    shrink_out(tile, shrink, value_width, lane);
  }
}

void forward(const Forward<Bf16>& head, std::int64_t first, std::int64_t end, std::byte* memory) {
  [[maybe_unused]] const ProductScope scope;
  Arena arena(memory);
  Scratch scratch(arena, head.width, head.value_width, false);
  const std::int64_t width = scratch.width, value_width = scratch.value_width,
                     value_rows = up_to(kSide, head.value_width);
  const auto scale = static_cast<float>(head.scale * log2_e<double>());
  const Visible all =
      begin_block(head, first, end, scratch.tiles, [&](std::int64_t query, PackedQueries& tile) {
        pack_queries(head.q, query, tile.queries, head.queries, head.width, width, scratch.rows, tile.q,
                     nullptr);
        begin_forward(head, tile, value_rows);
      });
  const auto pack = [&](std::int64_t key, std::int64_t key_end) {
    pack_keys(head, key, key_end, scratch);
    pack_columns(scratch.values, value_width, scratch.pairs, scratch.columns);
  };
  const auto run = [&](PackedQueries& tile, std::int64_t key, const Cover& seen) {
    const std::int64_t keys = seen.end - seen.first, skipped = seen.first - key;
    pair_product(keys, width, kQueries, scratch.keys + skipped * width, width, tile.q, kQueries,
                 scratch.scores, kQueries, false);
    softmax(tile, seen, scale, value_rows, scratch.scores, scratch.score_pairs);
    pair_product(value_rows, keys, kQueries, scratch.columns + skipped, kKeys, scratch.score_pairs, kQueries,
                 tile.out, kQueries, true);
  };
  for_each_cover<kDepth>(head, all, end - first, scratch.tiles, pack, run);
  for (int t = 0; t * kQueries < end - first; ++t) end_forward(head, first + t * kQueries, scratch.tiles[t]);
}

// Computes weights and gradients of scores, without the scale, from scores and gradients of
// weights. Stores them as rows, and the gradients in pairs of keys, too.
void weights_and_score_grads(const PackedQueries& tile, const Cover& seen, float scale,
                             const Scratch& scratch) {
  struct Row {
    Vector<float> weight[2], grad[2];  // of 16 queries each
  };
  const auto row = [&](std::int64_t j) {
    Row r;
    for (int half = 0; half < 2; ++half) {
      const int lane = half * kSide;
      Vector<float> weight =
          exp2(lanes(scratch.scores + j * kQueries + lane) * scale - lanes(tile.maximum + lane));
      if (!seen.full) weight = hidden(tile, seen.first + j, lane) ? Vector<float>{} : weight;
      r.weight[half] = weight;
      r.grad[half] = weight * (lanes(scratch.score_grads + j * kQueries + lane) - lanes(tile.sum + lane));
    }
    _mm512_store_si512(scratch.weight_rows + j * kQueries, rounded_halves(r.weight[0], r.weight[1]));
    _mm512_store_si512(scratch.grad_rows + j * kQueries, rounded_halves(r.grad[0], r.grad[1]));
    return r;
  };
  for (std::int64_t j = 0; j < seen.end - seen.first; j += 2) {
    const Row one = row(j), next = row(j + 1);
    for (int half = 0; half < 2; ++half)
      _mm512_store_si512(scratch.score_pairs + j / 2 * kQueries + half * kSide,
                         rounded_pairs(one.grad[half], next.grad[half]));
  }
}

void backward(const Backward<Bf16>& head, std::int64_t first, std::int64_t end, std::byte* memory) {
  [[maybe_unused]] const ProductScope scope;
  Arena arena(memory);
  Scratch scratch(arena, head.width, head.value_width, true);
  const std::int64_t width = scratch.width, value_width = scratch.value_width,
                     out_rows = up_to(kSide, head.width), value_rows = up_to(kSide, head.value_width);
  const auto scale = static_cast<float>(head.scale * log2_e<double>());
  const bool with_queries = head.grad_q.data != nullptr;
  const Visible all =
      begin_block(head, first, end, scratch.tiles, [&](std::int64_t query, PackedQueries& tile) {
        if (!with_queries && (tile.lowest >= head.end_key || tile.upper <= head.first_key)) return;
        for (std::int64_t i = query; i < query + tile.queries; ++i)
          prefetch(head.output[i], head.value_width);
        pack_queries(head.q, query, tile.queries, head.queries, head.width, width, scratch.rows, tile.q,
                     tile.q_pairs);
        pack_queries(head.grad, query, tile.queries, head.queries, head.value_width, value_width,
                     scratch.rows, tile.grad, tile.grad_pairs);
        begin_backward(head, query, tile, out_rows);
      });
  const auto pack = [&](std::int64_t key, std::int64_t key_end) {
    pack_keys(head, key, key_end, scratch);
    if (with_queries) pack_columns(scratch.keys, width, scratch.pairs, scratch.columns);
  };
  const auto run = [&](PackedQueries& tile, std::int64_t key, const Cover& seen) {
    const std::int64_t keys = seen.end - seen.first, skipped = seen.first - key;
    pair_product(keys, width, kQueries, scratch.keys + skipped * width, width, tile.q, kQueries,
                 scratch.scores, kQueries, false);
    pair_product(keys, value_width, kQueries, scratch.values + skipped * value_width, value_width, tile.grad,
                 kQueries, scratch.score_grads, kQueries, false);
    weights_and_score_grads(tile, seen, scale, scratch);
    if (with_queries)
      pair_product(out_rows, keys, kQueries, scratch.columns + skipped, kKeys, scratch.score_pairs, kQueries,
                   tile.out, kQueries, true);
    if (head.key_sums == nullptr) return;
    float* const sums = head.key_sums + (seen.first - head.first_key) * (out_rows + value_rows);
    pair_product(keys, kQueries, out_rows, scratch.grad_rows, kQueries, tile.q_pairs, width, sums,
                 out_rows + value_rows, true);
    pair_product(keys, kQueries, value_rows, scratch.weight_rows, kQueries, tile.grad_pairs, value_width,
                 sums + out_rows, out_rows + value_rows, true);
  };
  for_each_cover<kDepth>(head, asked(head, all), end - first, scratch.tiles, pack, run);
  if (!with_queries) return;
  for (int t = 0; t * kQueries < end - first; ++t) end_backward(head, first + t * kQueries, scratch.tiles[t]);
}

std::size_t scratch_bytes(std::int64_t width, std::int64_t value_width) {
  Arena arena(nullptr);
  [[maybe_unused]] const Scratch most(arena, width, value_width, true);
  return arena.used();
}

}  // namespace

const Kernels<Bf16> RONDO_TILES = {&forward, &backward, &write_key_sums<Bf16>, &scratch_bytes,
                                   &key_sums_bytes<Bf16>};

}  // namespace rondo::attention_tiles
