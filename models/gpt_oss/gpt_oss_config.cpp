#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "models/gpt_oss/gpt_oss.h"

namespace rondo {

const Fields& GptOssConfig::fields() {
  using C = GptOssConfig;
  static const Fields list =
      joined({stream_fields<C>(),
              grouped_query_fields<C>(),
              expert_fields<C>(),
              yarn_fields<C>(),
              {field("sliding_window", &C::sliding_window,
                     "tokens that a query sees in every second layer, from the first on, itself among them",
                     {.minimum = 1, .maximum = kWidest, .unit = "tokens"})}});
  return list;
}

FieldValues GptOssConfig::plain() const {
  FieldValues values = to_values(*this);
  spell_out(values);
  values.erase("sequence_balance_coeff");
  if (load_balance_coeff == 0) values.erase("load_balance_coeff");
  if (rope_scaling_factor == 1.0)
    for (const char* unused : {"rope_beta_fast", "rope_beta_slow", "rope_original_max_seq_len"})
      values.erase(unused);
  return values;
}

GptOssConfig GptOssConfig::small() const {
  GptOssConfig c = *this;
  c.make_small();
  c.sliding_window = std::min<std::int64_t>(sliding_window, 5);
  c.moe_hidden_dim = 24, c.n_experts = 24, c.top_k = std::min<std::int64_t>(top_k, 3);
  return c;
}

std::vector<SizeProblem> GptOssConfig::problems() const {
  std::vector<SizeProblem> found = head_problems();
  if (top_k > n_experts)
    found.push_back(
        {{"top_k", "n_experts"}, fmt::format("model.top_k must be at most model.n_experts = {}", n_experts)});
  check_yarn(rope_scaling_factor, rope_beta_fast, rope_beta_slow, found);
  return found;
}

Description GptOssConfig::description() const {
  Rotary rotary{rope_theta, head_width()};
  if (rope_scaling_factor != 1.0)
    rotary.scaling = YarnScaling{rope_scaling_factor,   rope_beta_fast,
                                 rope_beta_slow,        rope_original_max_seq_len,
                                 /*whole_pairs=*/false, 0.1 * std::log(rope_scaling_factor) + 1.0};
  GroupedQueryAttention with_sinks = attention(QkNorm::none);
  with_sinks.biases = with_sinks.sinks = true;
  GroupedQueryAttention windowed = with_sinks;
  windowed.mask.left = sliding_window - 1;
  const RouterOptions router{.top_k = top_k, .sigmoid = false, .norm = true};
  const MixtureOfExperts experts{router,
                                 n_experts,
                                 moe_hidden_dim,
                                 /*shared_width=*/0,
                                 /*has_bias=*/load_balance_coeff > 0,
                                 ExpertKind::clamped_swiglu,
                                 /*router_has_bias=*/true};
  std::vector<Block> blocks;
  for (std::int64_t layer = 0; layer < n_layers; ++layer)
    blocks.push_back({layer % 2 == 0 ? windowed : with_sinks, experts});
  return {ends(),
          norm_eps,
          rotary,
          equal_weights({Init::Kind::normal, 0.02, 0.0}),
          std::move(blocks),
          load_balance_coeff,
          sequence_balance_coeff};
}

}  // namespace rondo
