// Sizes that several models share: fields, rules between them, and the sizes that ranks divide. The
// fields are templates over a model's struct, so each model keeps its own defaults. No LibTorch.
#pragma once

#include <cstdint>
#include <vector>

#include "models/parts/description.h"
#include "models/parts/model_spec.h"
#include "support/fields.h"

namespace rondo {

// Sizes of a decoder with grouped-query attention.
struct GroupedQuerySizes {
  std::int64_t dim = 256;
  std::int64_t n_layers = 6;
  std::int64_t n_heads = 16;
  std::int64_t n_kv_heads = 16;  // divides n_heads; each serves n_heads / n_kv_heads query heads
  std::int64_t vocab_size = 2048;
  std::int64_t head_dim = 0;  // 0: dim / n_heads
  double norm_eps = 1e-5;
  double rope_theta = 500000.0;
  std::int64_t max_seq_len = 131072;
  bool tie_embeddings = false;  // the output head shares the token embedding's weight

  // Returns the width of one head. The heads together may be narrower or wider than dim.
  std::int64_t head_width() const { return head_dim > 0 ? head_dim : dim / n_heads; }

  // Returns the violated rules between these sizes.
  std::vector<SizeProblem> head_problems() const;
  // Completes the values of plain() (models/models.h), given the values of all fields.
  void make_plain(FieldValues& values) const { values["head_dim"] = head_width(); }
  // Shrinks the sizes to few, narrow heads and layers. Sizes that ranks share become 24, which 2,
  // 3, 4, 6 and 8 ranks can divide. None of these divides the vocabulary and the width.
  void make_small();
  DecoderEnds ends() const { return {dim, vocab_size, tie_embeddings}; }
  GroupedQueryAttention attention(QkNorm norm) const {
    return {n_heads, n_kv_heads, head_width(), norm, norm_eps};
  }
};

// Adds a feed-forward in every layer.
struct DenseSizes : GroupedQuerySizes {
  std::int64_t ffn_hidden_dim = 768;

  void make_small();
  SharedSizes shared() const {
    return {{{"n_heads", n_heads}, {"n_kv_heads", n_kv_heads}, {"ffn_hidden_dim", ffn_hidden_dim}}, {}};
  }
  // Returns n_layers equal blocks.
  std::vector<Block> blocks(QkNorm qk_norm, NormPlacement norms) const {
    const Block block{attention(qk_norm), FeedForward{ffn_hidden_dim}, norms};
    return std::vector<Block>(static_cast<std::size_t>(n_layers), block);
  }
};

// Adds routed experts. The sequence-wise auxiliary loss (models/parts/sequence_balance.h) balances
// their load. With load_balance_coeff above 0, a bias on the selection does so as well.
struct RoutedSizes : GroupedQuerySizes {
  std::int64_t moe_hidden_dim = 256;  // width of one expert
  std::int64_t n_experts = 8;
  std::int64_t top_k = 3;
  double load_balance_coeff = 0.0;  // 0: no bias
  double sequence_balance_coeff = 1e-3;

  std::vector<SizeProblem> routed_problems() const;
  void make_plain(FieldValues& values) const;
  void make_small();
  SharedSizes shared() const {
    return {{{"n_heads", n_heads}, {"n_kv_heads", n_kv_heads}},
            {{"n_experts", n_experts}},
            {{"moe_hidden_dim", moe_hidden_dim}}};
  }
  MixtureOfExperts experts(const RouterOptions& router) const {
    return {router, n_experts, moe_hidden_dim, /*shared_width=*/0, /*has_bias=*/load_balance_coeff > 0};
  }
};

inline constexpr double kWidest = 1 << 24;
// A plan or a start takes about 15 ms a layer, and the deepest published decoder has 1,000 layers
// (DeepNet, https://arxiv.org/abs/2203.00555).
inline constexpr double kMaxLayers = 1000;

// The fields take pointers to members of C, its own or inherited.
template <class C>
Fields stream_fields() {
  using Count = std::int64_t;
  return {
      field<C, Count>("dim", &C::dim, "width of the residual stream", {.minimum = 1, .maximum = 1 << 20}),
      field<C, Count>("n_layers", &C::n_layers, "transformer blocks", {.minimum = 1, .maximum = kMaxLayers}),
      field<C, Count>("vocab_size", &C::vocab_size, "rows of the token embedding",
                      {.minimum = 1, .maximum = kWidest}),
      field<C, double>("norm_eps", &C::norm_eps, "added to the mean square in RMSNorm",
                       {.above = 0, .below = 1}),
      field<C, double>("rope_theta", &C::rope_theta, "base of the rotary frequencies", {.above = 1}),
      field<C, Count>("max_seq_len", &C::max_seq_len, "longest sequence that the model takes",
                      {.minimum = 1, .maximum = kWidest, .unit = "tokens"}),
  };
}

template <class C>
Fields grouped_query_fields() {
  using Count = std::int64_t;
  return {
      field<C, Count>("n_heads", &C::n_heads, "query heads; divides dim where head_dim is 0",
                      {.minimum = 1, .maximum = 1 << 16}),
      field<C, Count>("n_kv_heads", &C::n_kv_heads, "key and value heads; divides n_heads",
                      {.minimum = 1, .maximum = 1 << 16}),
      field<C, Count>("head_dim", &C::head_dim, "width of one head; 0 is dim / n_heads",
                      {.minimum = 0, .maximum = 1 << 16}),
      field<C, bool>("tie_embeddings", &C::tie_embeddings,
                     "the output head shares the token embedding's weight"),
  };
}

template <class C>
Field feed_forward_field(const char* meaning) {
  return field<C, std::int64_t>("ffn_hidden_dim", &C::ffn_hidden_dim, meaning,
                                {.minimum = 1, .maximum = kWidest});
}

// Returns the fields that all models with experts share.
template <class C>
Fields expert_fields() {
  using Count = std::int64_t;
  return {
      field<C, Count>("moe_hidden_dim", &C::moe_hidden_dim, "width of an expert",
                      {.minimum = 1, .maximum = kWidest}),
      field<C, Count>("n_experts", &C::n_experts, "routed experts of a layer",
                      {.minimum = 1, .maximum = 1 << 16}),
      field<C, Count>("top_k", &C::top_k, "routed experts that a token takes",
                      {.minimum = 1, .maximum = 1 << 16}),
      field<C, double>("load_balance_coeff", &C::load_balance_coeff,
                       "step by which an expert's bias moves against its load, once an optimizer step",
                       {.minimum = 0, .below = 1}),
      field<C, double>("sequence_balance_coeff", &C::sequence_balance_coeff,
                       "factor on the auxiliary loss of each sequence's load, which is differentiated with "
                       "the loss and not reported in it; 0 is none",
                       {.minimum = 0}),
  };
}

template <class C>
Field route_norm_field() {
  return field<C, bool>("route_norm", &C::route_norm, "divide the chosen scores of a token by their sum");
}

Fields joined(std::initializer_list<Fields> parts);

template <class C>
Fields routed_fields() {
  return joined({stream_fields<C>(), grouped_query_fields<C>(), expert_fields<C>()});
}

template <class C>
Fields dense_fields() {
  return joined(
      {stream_fields<C>(), grouped_query_fields<C>(), {feed_forward_field<C>("width of the feed-forward")}});
}

}  // namespace rondo
