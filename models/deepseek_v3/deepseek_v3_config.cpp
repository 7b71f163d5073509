// The fields of DeepSeek-V3's sizes, the rules between them, and the description.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "models/deepseek_v3/deepseek_v3.h"
#include "models/parts/size_fields.h"

namespace rondo {
namespace {

using C = DeepSeekV3Config;

Fields attention_fields() {
  return {
      field("q_lora_rank", &C::q_lora_rank, "width of the queries' latent; 0 is none",
            {.minimum = 0, .maximum = kWidest}),
      field("kv_lora_rank", &C::kv_lora_rank, "width of the latent of keys and values",
            {.minimum = 1, .maximum = kWidest}),
      field("qk_nope_head_dim", &C::qk_nope_head_dim, "width of a query's or key's head without position",
            {.minimum = 1, .maximum = 1 << 16}),
      field("qk_rope_head_dim", &C::qk_rope_head_dim, "width of what is rotated beside it; even",
            {.minimum = 2, .maximum = 1 << 16}),
      field("v_head_dim", &C::v_head_dim, "width of a value's head", {.minimum = 1, .maximum = 1 << 16}),
      field("latent_norm_eps", &C::latent_norm_eps,
            "added to the mean square in the RMSNorm of the latents; transformers has 1e-6 there",
            {.above = 0, .below = 1}),
  };
}

Fields router_fields() {
  return {
      field("n_shared_experts", &C::n_shared_experts, "experts that every token takes",
            {.minimum = 0, .maximum = 1 << 10}),
      field("score_func", &C::score_func, "what makes scores of the router's logits"),
      field("n_expert_groups", &C::n_expert_groups, "equal groups of neighbouring experts; divides n_experts",
            {.minimum = 1, .maximum = 1 << 16}),
      field("n_limited_groups", &C::n_limited_groups,
            "groups that a token may choose from: those with the best sum of two scores",
            {.minimum = 1, .maximum = 1 << 16}),
      route_norm_field<C>(),
      field("route_scale", &C::route_scale, "factor on the chosen scores", {.above = 0}),
  };
}

Fields mscale_field() {
  return {field("rope_mscale", &C::rope_mscale,
                "YaRN: attention scores grow by (0.1 rope_mscale ln(rope_scaling_factor) + 1) squared",
                {.minimum = 0})};
}

double score_scale(const C& c) {
  const double plain = 1.0 / std::sqrt(static_cast<double>(c.qk_head_dim()));
  const double growth = 0.1 * c.rope_mscale * std::log(c.rope_scaling_factor) + 1.0;  // 1 without scaling
  return plain * growth * growth;
}

}  // namespace

const Fields& DeepSeekV3Config::fields() {
  static const Fields list = joined(
      {stream_fields<C>(),
       {field("n_dense_layers", &C::n_dense_layers,
              "first blocks, which have one feed-forward and no experts", {.minimum = 0, .maximum = 10000}),
        field("n_heads", &C::n_heads, "attention heads", {.minimum = 1, .maximum = 1 << 16}),
        feed_forward_field<C>("width of the dense layers' feed-forward")},
       attention_fields(),
       expert_fields<C>(),
       router_fields(),
       yarn_fields<C>(),
       mscale_field()});
  return list;
}

FieldValues DeepSeekV3Config::plain() const {
  FieldValues values = to_values(*this);
  values.erase("load_balance_coeff");
  values.erase("sequence_balance_coeff");
  make_plain_rotary(values);
  if (rope_scaling_factor == 1.0) values.erase("rope_mscale");
  return values;
}

DeepSeekV3Config DeepSeekV3Config::for_rows(std::int64_t longest) const {
  DeepSeekV3Config c = *this;
  if (longest <= rope_original_max_seq_len) c.rope_scaling_factor = 1.0;
  return c;
}

DeepSeekV3Config DeepSeekV3Config::small() const {
  DeepSeekV3Config c = *this;
  const bool has_experts = n_dense_layers<n_layers, has_groups = n_expert_groups> 1;
  c.n_dense_layers = std::min<std::int64_t>(n_dense_layers, 1);
  c.n_layers = c.n_dense_layers + std::min<std::int64_t>(n_layers - c.n_dense_layers, has_experts ? 2 : 1);
  if (!has_experts) c.n_dense_layers = c.n_layers;
  c.dim = 41, c.n_heads = 24, c.vocab_size = 259, c.ffn_hidden_dim = 48;
  c.q_lora_rank = q_lora_rank > 0 ? 19 : 0, c.kv_lora_rank = 13;
  c.qk_nope_head_dim = 4, c.qk_rope_head_dim = 4, c.v_head_dim = 6;
  c.moe_hidden_dim = 24, c.n_experts = 24, c.n_shared_experts = std::min<std::int64_t>(n_shared_experts, 2);
  c.top_k = std::min<std::int64_t>(top_k, 3);
  c.n_expert_groups = has_groups ? 8 : 1, c.n_limited_groups = has_groups ? 2 : 1;
  return c;
}

SharedSizes DeepSeekV3Config::shared() const {
  return {{{"n_heads", n_heads},
           {"ffn_hidden_dim", ffn_hidden_dim},
           {"moe_hidden_dim", moe_hidden_dim * n_shared_experts}},
          {{"n_experts", n_experts}},
          {{"moe_hidden_dim", moe_hidden_dim}}};
}

std::vector<SizeProblem> DeepSeekV3Config::problems() const {
  std::vector<SizeProblem> found;
  const auto add = [&](std::vector<std::string> keys, std::string rule) {
    found.push_back({std::move(keys), std::move(rule)});
  };
  if (qk_rope_head_dim % 2 != 0)
    add({"qk_rope_head_dim"}, "model.qk_rope_head_dim must be even: rotary embedding turns pairs");
  if (n_dense_layers > n_layers)
    add({"n_dense_layers", "n_layers"},
        fmt::format("model.n_dense_layers must be at most model.n_layers = {}", n_layers));
  if (n_experts % n_expert_groups != 0) {
    add({"n_expert_groups", "n_experts"},
        "model.n_expert_groups must divide model.n_experts, and " + division(n_experts, n_expert_groups));
    return found;
  }
  if (n_limited_groups > n_expert_groups)
    add({"n_limited_groups", "n_expert_groups"},
        fmt::format("model.n_limited_groups must be at most model.n_expert_groups = {}", n_expert_groups));
  const std::int64_t group = n_experts / n_expert_groups;
  if (n_expert_groups > 1 && group < 2)
    add({"n_expert_groups", "n_experts"},
        fmt::format("a group must have 2 experts or more, since its two best scores count, and {} / {} = {}",
                    n_experts, n_expert_groups, group));
  if (top_k > n_limited_groups * group)
    add({"top_k", "n_limited_groups", "n_experts"},
        fmt::format("model.top_k must be at most the {} experts that a token may choose from: "
                    "n_limited_groups * n_experts / n_expert_groups = {} * {}",
                    n_limited_groups * group, n_limited_groups, group));
  check_rotary(found);
  return found;
}

Description DeepSeekV3Config::description() const {
  const LatentAttention attention{.heads = n_heads,
                                  .q_rank = q_lora_rank,
                                  .kv_rank = kv_lora_rank,
                                  .plain_width = qk_nope_head_dim,
                                  .rotated_width = qk_rope_head_dim,
                                  .value_width = v_head_dim,
                                  .norm_eps = latent_norm_eps,
                                  .scale = score_scale(*this)};
  const MixtureOfExperts experts{.router = {.top_k = top_k,
                                            .sigmoid = score_func == ScoreFunction::sigmoid,
                                            .n_groups = n_expert_groups,
                                            .n_limited_groups = n_limited_groups,
                                            .norm = route_norm,
                                            .scale = route_scale},
                                 .experts = n_experts,
                                 .width = moe_hidden_dim,
                                 .shared_width = moe_hidden_dim * n_shared_experts,
                                 .has_bias = true};
  std::vector<Block> blocks(static_cast<std::size_t>(n_layers), {attention, experts});
  for (std::size_t layer = 0; layer < static_cast<std::size_t>(n_dense_layers); ++layer)
    blocks[layer].feed_forward = FeedForward{ffn_hidden_dim};
  return {.ends = {dim, vocab_size},
          .norm_eps = norm_eps,
          .rotary = {rope_theta, qk_rope_head_dim, yarn()},
          .initial_weights = torchtitan_weights(dim),
          .blocks = std::move(blocks),
          .load_balance_coeff = load_balance_coeff,
          .sequence_balance_coeff = sequence_balance_coeff};
}

}  // namespace rondo
