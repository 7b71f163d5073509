#include <algorithm>

#include "models/llama4/llama4.h"

namespace rondo {

const Fields& Llama4Config::fields() {
  using C = Llama4Config;
  static const Fields list = joined(
      {routed_fields<C>(),
       wavelength_fields<C>(),
       {feed_forward_field<C>("width of the dense layers' feed-forward"),
        field("interleave_moe_layer_step", &C::interleave_moe_layer_step,
              "every so many-th layer has experts, the others a feed-forward", {.minimum = 1}),
        field("no_rope_layer_interval", &C::no_rope_layer_interval,
              "every so many-th layer has no rotation and sees the whole document", {.minimum = 1}),
        field("attention_chunk", &C::attention_chunk,
              "the other layers cut a document into pieces of so many tokens that do not see each other",
              {.minimum = 1, .maximum = kWidest, .unit = "tokens"}),
        field("use_qk_norm", &C::use_qk_norm,
              "RMSNorm without a weight over each rotated head of queries and keys"),
        field("attn_scale", &C::attn_scale,
              "queries of layers without rotation grow with their position by 1 + this * ln(1 + "
              "floor((position + 1) / floor_scale)), which Meta does in inference alone; 0: they do not",
              {.minimum = 0}),
        field("floor_scale", &C::floor_scale, "tokens after which they grow again",
              {.minimum = 1, .maximum = kWidest, .unit = "tokens"})}});
  return list;
}

FieldValues Llama4Config::plain() const {
  FieldValues values = to_values(*this);
  make_plain(values);
  make_plain_rotary(values);
  if (interleave_moe_layer_step == 1) values.erase("ffn_hidden_dim");
  if (attn_scale == 0) values.erase("floor_scale");
  return values;
}

// Two layers: one of each kind if the original's intervals are 2 or more.
Llama4Config Llama4Config::small() const {
  Llama4Config c = *this;
  c.make_small();
  const auto at_most = [](std::int64_t& size, std::int64_t most) { size = std::min(size, most); };
  at_most(c.interleave_moe_layer_step, 2), at_most(c.no_rope_layer_interval, 2);
  at_most(c.attention_chunk, 7), at_most(c.floor_scale, 3);
  c.ffn_hidden_dim = 48;
  return c;
}

SharedSizes Llama4Config::shared() const {
  SharedSizes sizes = RoutedSizes::shared();
  sizes.layers.push_back({"moe_hidden_dim", moe_hidden_dim});
  if (interleave_moe_layer_step > 1) sizes.layers.push_back({"ffn_hidden_dim", ffn_hidden_dim});
  return sizes;
}

std::vector<SizeProblem> Llama4Config::problems() const {
  std::vector<SizeProblem> found = routed_problems();
  check_rotary(found);
  return found;
}

Description Llama4Config::description() const {
  GroupedQueryAttention whole = attention(QkNorm::none);
  whole.pairs = RotatedPairs::none;
  whole.queries_grow = attn_scale > 0;
  GroupedQueryAttention chunked = attention(use_qk_norm ? QkNorm::rotated : QkNorm::none);
  chunked.pairs = RotatedPairs::neighbours;
  chunked.mask.chunk = attention_chunk;
  MixtureOfExperts routed = experts({.top_k = top_k, .sigmoid = true});
  routed.shared_width = moe_hidden_dim;
  routed.kind = ExpertKind::fused_swiglu;
  routed.scores_scale_inputs = true;
  std::vector<Block> blocks;
  for (std::int64_t layer = 0; layer < n_layers; ++layer) {
    blocks.push_back({has_rope(layer) ? chunked : whole, routed});
    if (!has_experts(layer)) blocks.back().feed_forward = FeedForward{ffn_hidden_dim};
  }
  return {.ends = ends(),
          .norm_eps = norm_eps,
          .rotary = rotary(rope_theta, head_width()),
          .initial_weights = equal_weights({Init::Kind::normal, 0.02, 0.0}),
          .blocks = std::move(blocks),
          .load_balance_coeff = load_balance_coeff,
          .sequence_balance_coeff = sequence_balance_coeff,
          .query_growth = {attn_scale, floor_scale},
          .names = {"feed_forward", "router", "shared_expert"}};
}

}  // namespace rondo
